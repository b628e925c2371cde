"""The ASGI application: routes, access, bodies, responses, and uvicorn's protocol with limits on headers."""
