"""Run by the interpreter of .venv-esm: what esm's own sampler gives beside ours, as one line of JSON.

python esm_reference.py FOLDER_OF_CHILD WEIGHTS SIZES
"""

import json
import sys

import torch

sys.path.insert(0, sys.argv[1])
import child
from esm.sdk.api import ESMProtein, GenerationConfig
from esm.utils.generation import _get_annealed_temperature
from esm.utils.noise_schedules import NOISE_SCHEDULE_REGISTRY
from esm.utils.sampling import top_p_logits

torch.set_num_threads(1)
sampler = child.Sampler({"device": "cpu", "weights": sys.argv[2], "sizes": json.loads(sys.argv[3])})
model, tokens = sampler.model, sampler.model.tokenizers.sequence
counted = []
for steps, masked in [(4, 24), (20, 64), (20, 916), (50, 37)]:
    n, left, counts = min(steps, masked), masked, []
    for t in range(n):
        after = (NOISE_SCHEDULE_REGISTRY["cosine"](torch.tensor((t + 1) / n)) * torch.tensor(masked) + 0.1).int()
        counts.append(int(left - after))
        left = int(after)
    counted.append(counts == child.schedule(steps, masked))
heat = all(_get_annealed_temperature(t, 20, 1.2) == child.annealed(t, 20, 1.2, True) for t in range(20))
logits = torch.randn(50, 64, generator=torch.Generator().manual_seed(0))
kept = bool(((top_p_logits(logits.clone(), 0.6) > -1e30) == child.nucleus(logits, 0.6).isfinite()).all())


def theirs(length, n, **options):
    bad = [tokens.convert_tokens_to_ids(letter) for letter in "XBUZO.-|"]
    config = GenerationConfig(track="sequence", invalid_ids=bad, **options)
    outs = model.batch_generate([model.encode(ESMProtein(sequence="_" * length)) for _ in range(n)], [config] * n)
    return [tokens.decode(out.sequence[1:-1]).replace(" ", "") for out in outs]


# One step at temperature 0 leaves nothing to chance: the very letters of esm's own generation.
request = {"prompt": "_" * 24, "steps": 1, "temperature": 1e-4, "top_p": 1.0, "letters": "ACDEFGHIKLMNPQRSTVWY"}
ours = sampler.sample(request | {"rows": [[0, 0], [1, 5]], "annealing": False})["sequences"]
same = ours == 2 * theirs(24, 1, num_steps=1, temperature=1e-4, temperature_annealing=False)
# Over many sequences the same letters come as often.
torch.manual_seed(0)
request |= {"prompt": "_" * 8, "rows": [[3, i] for i in range(300)], "steps": 3, "temperature": 1.0, "annealing": True}
esm, ours = theirs(8, 300, num_steps=3, temperature=1.0), sampler.sample(request)["sequences"]
print(json.dumps({"counted": counted, "heat": heat, "kept": kept, "same": same, "esm": esm, "ours": ours}))
