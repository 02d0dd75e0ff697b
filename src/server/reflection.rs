use tonic_reflection::server::{Builder, Error, v1, v1alpha};

/// Envoy's own descriptors of the service, with all that they import. `scripts/update-descriptors` makes the file.
const DESCRIPTORS: &[u8] = include_bytes!("ratelimit.binpb");

pub(super) fn v1() -> Result<v1::ServerReflectionServer<impl v1::ServerReflection>, Error> {
    builder().build_v1()
}

/// The older protocol, which is all that many versions of grpcurl speak.
pub(super) fn v1alpha() -> Result<v1alpha::ServerReflectionServer<impl v1alpha::ServerReflection>, Error> {
    builder().build_v1alpha()
}

fn builder() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}
