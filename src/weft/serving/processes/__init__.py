"""HTTP in processes of its own: several processes read, tokenize and write, one process runs the model.

Python runs one thread at a time. In a single process the HTTP server, the tokenizer and the model share it,
and on a GPU they are the limit. `weft serve --http-processes N` starts N further processes:

    client ── HTTP process ──┐
    client ── HTTP process ──┼── model process ── GPU
    client ── HTTP process ──┘

An HTTP process is the whole application but for the batcher: it checks requests, tokenizes them and sends
them on, in portions of what arrived meanwhile. The model process batches the questions of all of them. All
processes accept connections at the same port.
"""
