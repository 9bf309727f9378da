"""What the task `proteins` runs on: engine `esm3`, embedder `esmc`, and the verifier ESMFold."""
