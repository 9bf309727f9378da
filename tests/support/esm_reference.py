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
model = sampler.model
counted = []
for steps, masked in [(4, 24), (20, 64), (20, 916), (50, 37)]:
    left, counts = masked, []
    n = min(steps, masked)
    for t in range(n):
        after = (NOISE_SCHEDULE_REGISTRY["cosine"](torch.tensor((t + 1) / n)) * torch.tensor(masked) + 0.1).int()
        counts.append(int(left - after))
        left = int(after)
    counted.append(counts == child.schedule(steps, masked))
heat = all(_get_annealed_temperature(t, 20, 1.2) == child.annealed(t, 20, 1.2, True) for t in range(20))
logits = torch.randn(50, 64, generator=torch.Generator().manual_seed(0))
theirs = top_p_logits(logits.clone(), 0.6)
ours = child.nucleus(logits, 0.6)
kept = bool(((theirs > -1e30) == ours.isfinite()).all())
# One step at temperature 0 leaves nothing to chance: the very letters of esm's own generation.
L = 24
bad = [model.tokenizers.sequence.convert_tokens_to_ids(c) for c in "XBUZO.-|"]
config = GenerationConfig(track="sequence", num_steps=1, temperature=1e-4, temperature_annealing=False, invalid_ids=bad)
(out,) = model.batch_generate([model.encode(ESMProtein(sequence="_" * L))], [config])
esm = model.tokenizers.sequence.decode(out.sequence[1:-1]).replace(" ", "")
request = {
    "prompt": "_" * L,
    "rows": [[0, 0], [1, 5]],
    "steps": 1,
    "temperature": 1e-4,
    "top_p": 1.0,
    "annealing": False,
    "letters": "ACDEFGHIKLMNPQRSTVWY",
}
same = sampler.sample(request)["sequences"] == [esm, esm]
# Over many sequences the same letters come as often.
many = 300
configs = [GenerationConfig(track="sequence", num_steps=3, temperature=1.0, invalid_ids=bad) for _ in range(many)]
torch.manual_seed(0)
outs = model.batch_generate([model.encode(ESMProtein(sequence="_" * 8)) for _ in range(many)], configs)
esm = [model.tokenizers.sequence.decode(o.sequence[1:-1]).replace(" ", "") for o in outs]
request |= {"prompt": "_" * 8, "rows": [[3, i] for i in range(many)], "steps": 3, "temperature": 1.0, "annealing": True}
ours = sampler.sample(request)["sequences"]
print(json.dumps({"counted": counted, "heat": heat, "kept": kept, "same": same, "esm": esm, "ours": ours}))
