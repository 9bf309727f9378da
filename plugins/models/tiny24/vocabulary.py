"""The tokenizer of the embedded models: a fixed list of whole words, and bytes for everything else.

` make 24. Write` becomes ` make`, ` 24`, `.`, ` Write`: text is cut into words, whole numbers and single signs, each
with the space before it, and a piece that is in the list is one token. Any other piece becomes its bytes, so every text
can be decoded exactly. No merges are learnt. The special tokens hold a fullwidth bar: no ASCII text contains one.
"""

from __future__ import annotations

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from harness_tasks.game24 import PROMPT

from .puzzles import LARGEST_VALUE

PAD, BOS, EOS = "<｜pad｜>", "<｜bos｜>", "<｜eos｜>"
ROLES = ("<｜system｜>", "<｜user｜>", "<｜assistant｜>")
CONTEXT = 1024
PIECES = r" ?[A-Za-z]+:?| ?[0-9]+| ?[^\sA-Za-z0-9]|\s"
RESPONSE_WORDS = ", left = ( + - * / Answer:"
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<｜' + message['role'] + '｜>' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜assistant｜>' }}{% endif %}"
)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer with 1,086 tokens; it adds no special token by itself, the chat template writes them."""
    splitter = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer = Tokenizer(models.BPE(vocab=_vocabulary(splitter), merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        additional_special_tokens=list(ROLES),
        chat_template=CHAT_TEMPLATE,
        padding_side="left",
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def _vocabulary(splitter: pre_tokenizers.PreTokenizer) -> dict[str, int]:
    """Return token -> id: special tokens, the 256 bytes, then numbers and words with and without a space before."""
    texts = [PROMPT, RESPONSE_WORDS, *(f"{n} {n}" for n in range(LARGEST_VALUE + 1))]
    pieces = [piece for text in texts for piece, _ in splitter.pre_tokenize_str(text)]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return {token: i for i, token in enumerate(dict.fromkeys([PAD, BOS, EOS, *ROLES, *alphabet, *pieces]))}
