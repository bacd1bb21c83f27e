// RUN: glow-opt %s -p glow-declare-memories{backend=cpu} | filecheck %s

// A function is planned for the memories of the backend that it is compiled for; the CPU has the main one alone.
// CHECK: glow_instr.func @main declare
glow_instr.func @main attributes {memories = {scratch = {size = 64 : i64}}} declare {
} program {
}
