namespace net {
struct Buffer {
  unsigned data[16];
  unsigned sum() const;
};
inline unsigned mix(unsigned x) { return x * 31 ^ x >> 7; }
inline unsigned Buffer::sum() const {
  unsigned all = 0;
  for (unsigned one : data)
    all += mix(one);
  return all;
}
[[gnu::noinline]] unsigned parse(const Buffer &from) {
  unsigned a = from.sum();
  if (__builtin_expect(a == 7, 0))
    return mix(a);
  return a + 1;
}
} // namespace net
static net::Buffer buffer;
extern "C" void _start() {
  volatile unsigned sink = net::parse(buffer);
  for (;;)
    (void)sink;
}

// fuzz/corpus/image/inlined-cpp-5, by clang 19.1; with -gdwarf-4 it is inlined-cpp-4, and with
// -gline-tables-only instead of -g1 and -fdebug-info-for-profiling inlined-lines:
// clang++ -O2 -fno-unroll-loops -fno-vectorize -fno-slp-vectorize -ffunction-sections -g1 -gdwarf-5
//   -fdebug-info-for-profiling -fno-asynchronous-unwind-tables -fno-ident -fno-exceptions -fno-rtti -nostdlib -static
//   -Wl,--build-id=none -Wl,-z,noseparate-code -Wl,-z,max-page-size=4096 -ffile-prefix-map=$PWD=/w
//   -fdebug-compilation-dir=/w -o inlined-cpp-5 inlined.cpp
