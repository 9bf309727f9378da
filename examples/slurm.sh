#!/bin/bash
#SBATCH --job-name=diversity --nodes=4 --ntasks-per-node=1 --gpus-per-node=8 --cpus-per-task=64 --exclusive --time=24:00:00
set -euo pipefail
source "$HOME/diversity/.venv/bin/activate"   # shared by all nodes
export RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0 OMP_NUM_THREADS=4
export HF_HOME=/shared/hf HF_HUB_OFFLINE=1    # models and data fetched beforehand
[ -e ~/.ray/auth_token ] || ray get-auth-token --generate

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 20000))
srun --nodes=1 --ntasks=1 --nodelist="$head" \
  ray start --head --port="$port" --num-cpus="$SLURM_CPUS_PER_TASK" --include-dashboard=false --block &
sleep 20
if [ "$SLURM_JOB_NUM_NODES" -gt 1 ]; then
  srun --nodes=$((SLURM_JOB_NUM_NODES - 1)) --ntasks=$((SLURM_JOB_NUM_NODES - 1)) --exclude="$head" \
    ray start --address="$head:$port" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
  sleep 20
fi
# On the head, inside its step's allocation: the run is one of the cluster's processes there.
srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" \
  harness run --yes --paper --task gsm8k --model Qwen/Qwen2.5-7B-Instruct --engine transformers:dtype=bfloat16 \
  --selector repexp --selector uniform --store /shared/runs --executor "ray:address=$head:$port"
