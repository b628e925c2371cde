"""Questions of all clients become batches: tickets, the queue, the threads that answer them, the worker."""
