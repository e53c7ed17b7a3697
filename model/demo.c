/* demo.c - the demo model lies in read-only data, page-aligned, and is used in place like a mapped file. */
#include "model/demo.h"

#ifdef DEMO_FILE
__asm__(".section .rodata\n"
        ".balign 4096\n"
        "hayate_demo: .incbin \"" DEMO_FILE "\"\n"
        "hayate_demo_end: .byte 0\n"
        ".previous\n");
extern const unsigned char hayate_demo[], hayate_demo_end[];

size_t demo_bytes(const void **bytes)
{
    *bytes = hayate_demo;
    return (size_t)(hayate_demo_end - hayate_demo);
}
#else
size_t demo_bytes(const void **bytes)
{
    *bytes = NULL;
    return 0;
}
#endif
