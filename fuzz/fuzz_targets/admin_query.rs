#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| comporta::fuzzing::admin_query(bytes));
