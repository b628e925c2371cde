# A server for CPUs: docker build -t weft . && docker run -p 8000:8000 -v ./runs/first/bundle:/model:ro weft
FROM python:3.12-slim

# The default build of torch may bring gigabytes of CUDA. For a small image, pass the address of PyTorch's index
# of builds for CPUs: docker build --build-arg TORCH_INDEX=URL -t weft .
ARG TORCH_INDEX=""
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch

COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
RUN pip install --no-cache-dir '/src[serve,minilm]' && rm -rf /src

RUN useradd --create-home --uid 10001 weft
USER weft
WORKDIR /home/weft
ENV HF_HUB_OFFLINE=1

EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=120s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health/ready', timeout=2)"]

# exec form: SIGTERM reaches weft itself, which answers accepted requests before it stops
ENTRYPOINT ["weft", "serve", "/model", "--host", "0.0.0.0", "--port", "8000"]
