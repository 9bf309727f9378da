"""What the conformance kit is tried on: the outside data of tasks, variants of selectors."""

DATA = {
    "mbppplus": "MbppPlus-v0.2.0.jsonl.gz", "humanevalplus": "HumanEvalPlus-v0.1.10.jsonl.gz", "math": "math500.jsonl",
    "math500": "math500.jsonl", "gsm8k": "gsm8k_test.jsonl", "aime24": "aime24_qwq.jsonl",
    "aime25": "aime25_qwq.jsonl", "dapo-math": "dapo-math-17k.parquet", "dapo-aime": "aime25_qwq.jsonl",
}  # fmt: skip
VARIANTS = ["repexp:first=max", "kcenter:first=max", "dpp-map:kernel=cosine", "dpp-map:first=max", "k-dpp:kernel=rbf"]
VARIANTS += ["facility-location:similarity=rbf", "facility-location:similarity=euclidean", "length:first=long"]
VARIANTS += ["answer-round-robin:order=random,unanswered=cluster", "dedup:by=answer", "ngram-coverage:weights=idf"]
VARIANTS += ["ngram-coverage:unit=character,ngrams=3", "outcome-ucb:bonus=batch,value=none", "logprob:per=token"]
VARIANTS += ["mmr:alpha=0.1,quality=logprob", "k-dpp:kernel=linear", "repexp:lam=0.01", "unlikely:per=token"]
VARIANTS += ["score:by=mean-logprob", "score-dpp:by=logprob,theta=0.1", "majority:turns=true,weight=score,by=logprob"]
