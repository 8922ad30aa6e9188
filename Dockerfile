# The image of hopbench: one binary, the RDMA userspace that it opens at run time, and iproute2 to look around with. libcuda comes
# from the container runtime (nvidia-container-toolkit), never from an image.
FROM golang:1.26-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends libibverbs-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN make planner \
 && CGO_CFLAGS="-O2 -Wno-deprecated-declarations" go build -tags planner -trimpath -buildvcs=false \
      -ldflags "-s -w -X hopbench/bench/internal/cli.release=${VERSION} -extldflags=-Wl,-z,lazy" -o /hopbench ./bench

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends libibverbs1 ibverbs-providers ibverbs-utils iproute2 \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /hopbench /usr/local/bin/hopbench
COPY LICENSE /usr/share/doc/hopbench/LICENSE
# The control port of `hopbench serve`; data connections take ports that the kernel chooses unless --data-port is given.
EXPOSE 18515
ENTRYPOINT ["hopbench"]
CMD ["run"]
