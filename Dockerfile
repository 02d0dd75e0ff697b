# Comporta as a container image: `docker build --tag comporta .`

FROM rust:1.95.0-slim-bookworm AS build
WORKDIR /src

# The dependencies in a layer of their own, with empty sources: it is built anew only when Cargo.toml or Cargo.lock changes.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src benches \
    && touch src/lib.rs benches/decide.rs benches/instructions.rs \
    && echo 'fn main() {}' > src/main.rs \
    && cargo build --release --locked --bin comporta

# Cargo compares times, and copied files keep theirs: without `touch` it would take the empty sources for the newer ones.
COPY lua lua
COPY src src
RUN touch src/lib.rs src/main.rs \
    && cargo build --release --locked --bin comporta

# glibc, libgcc and the usual certificate authorities (for Redis over TLS); no shell and no package manager. Its tags move,
# so it is pinned by what it holds.
FROM gcr.io/distroless/cc-debian12:nonroot@sha256:9dac0a79194e45a7da0158a9c6da57b217585af0786db3845d1f0ec1a0dd182f
LABEL org.opencontainers.image.title="comporta" \
      org.opencontainers.image.description="Rate limit service for Envoy: exact across replicas, local in latency" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /src/target/release/comporta /usr/local/bin/comporta
# An example of a policy. Mount your own in its place.
COPY config /etc/comporta
ENV COMPORTA_POLICY=/etc/comporta
# In numbers, because Kubernetes cannot tell by a name that it is not root.
USER 65532:65532
# gRPC for Envoy, HTTP, and the pages for operators. The last are on the container's loopback unless COMPORTA_ADMIN_ADDR
# says otherwise.
EXPOSE 8081 8080 6070
HEALTHCHECK --interval=5s --timeout=2s --start-period=10s --retries=3 CMD ["comporta", "healthcheck"]
ENTRYPOINT ["comporta"]
CMD ["serve"]
