"""The graders of the task `own`: each finds a response's answer and compares it with the line's reference."""
