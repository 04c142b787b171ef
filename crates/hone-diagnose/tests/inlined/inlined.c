static inline unsigned h(unsigned x) { return x * 31 ^ x >> 7; }

static inline __attribute__((always_inline)) unsigned g(unsigned x) {
  for (int i = 0; i < 36; i++)
    x = h(x) + 3;
#ifdef MORE
  x ^= x >> 16;
#endif
  return x;
}

__attribute__((noinline)) unsigned f(unsigned n) {
  unsigned sum = 0;
  for (unsigned i = 0; i < n; i++)
    sum += g(i);
  return sum;
}

void _start(void) {
  volatile unsigned sink = f(1000);
  for (;;) sink;
}

// fuzz/corpus/image/inlined-base, by gcc 12.2; with -DMORE it is inlined-head:
// gcc -O1 -g -gdwarf-5 -gz=none -fno-asynchronous-unwind-tables -fno-ident -nostdlib -static -Wl,--build-id=none
//   -Wl,-z,noseparate-code -Wl,-z,max-page-size=4096 -fdebug-prefix-map=$PWD=/w -o inlined-base inlined.c
