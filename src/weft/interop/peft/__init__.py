"""Exchange with PEFT."""
