/* load.c - a code object: an ELF file with one kernel, its descriptor (LLVM's "User Guide for AMDGPU Backend", code object V3 and later), its code. */
#include "tests/gfx11/isa.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MACHINE_AMDGPU = 224, FLAGS_GFX1151 = 0x4a, DESCRIPTOR = 64 };

struct file {
    const uint8_t *p;
    size_t n;
};

static bool at(const struct file *f, uint64_t from, uint64_t bytes) { return from <= f->n && bytes <= f->n - from; }

static bool section(const struct file *f, const Elf64_Ehdr *e, uint32_t i, Elf64_Shdr *s)
{
    uint64_t from = e->e_shoff + (uint64_t)i * sizeof *s;
    if (i >= e->e_shnum || e->e_shentsize != sizeof *s || !at(f, from, sizeof *s))
        return false;
    memcpy(s, f->p + from, sizeof *s);
    return s->sh_type == SHT_NOBITS || at(f, s->sh_offset, s->sh_size);
}

/* The bytes that will stand at an address */
static const uint8_t *at_address(const struct file *f, const Elf64_Ehdr *e, uint64_t address, uint64_t bytes)
{
    for (uint32_t i = 0; i < e->e_phnum; i++) {
        Elf64_Phdr h;
        uint64_t from = e->e_phoff + (uint64_t)i * sizeof h;
        if (!at(f, from, sizeof h))
            return NULL;
        memcpy(&h, f->p + from, sizeof h);
        if (h.p_type == PT_LOAD && address >= h.p_vaddr && address - h.p_vaddr <= h.p_filesz && bytes <= h.p_filesz - (address - h.p_vaddr) &&
            at(f, h.p_offset, h.p_filesz))
            return f->p + h.p_offset + (address - h.p_vaddr);
    }
    return NULL;
}

struct kernel {
    uint64_t descriptor, entry, bytes; /* addresses */
    char name[64];
};

static const char *symbol_name(const struct file *f, const Elf64_Shdr *strings, uint32_t name)
{
    const char *s = (const char *)f->p + strings->sh_offset + name;
    return name < strings->sh_size && memchr(s, 0, strings->sh_size - name) ? s : NULL;
}

/* The one symbol NAME.kd and the function NAME */
static const char *find_kernel(const struct file *f, const Elf64_Ehdr *e, struct kernel *k)
{
    Elf64_Shdr table, strings;
    Elf64_Sym sym;
    for (uint32_t i = 0;; i++) {
        if (!section(f, e, i, &table))
            return "no table of symbols";
        if (table.sh_type == SHT_DYNSYM)
            break;
    }
    if (!section(f, e, table.sh_link, &strings) || strings.sh_type == SHT_NOBITS)
        return "symbols without names";
    for (uint64_t i = 0; i < table.sh_size / sizeof sym; i++) {
        memcpy(&sym, f->p + table.sh_offset + i * sizeof sym, sizeof sym);
        const char *name = symbol_name(f, &strings, sym.st_name), *end = name ? strrchr(name, '.') : NULL;
        if (!end || strcmp(end, ".kd") != 0)
            continue;
        if (k->name[0])
            return "more than one kernel";
        snprintf(k->name, sizeof k->name, "%.*s", (int)(end - name), name);
        k->descriptor = sym.st_value;
    }
    for (uint64_t i = 0; i < table.sh_size / sizeof sym; i++) {
        memcpy(&sym, f->p + table.sh_offset + i * sizeof sym, sizeof sym);
        const char *name = symbol_name(f, &strings, sym.st_name);
        if (name && k->name[0] && strcmp(name, k->name) == 0 && ELF64_ST_TYPE(sym.st_info) == STT_FUNC)
            k->entry = sym.st_value, k->bytes = sym.st_size;
    }
    return k->name[0] && k->bytes ? NULL : "no kernel";
}

static uint32_t word_at(const uint8_t *p, size_t offset)
{
    uint32_t x;
    memcpy(&x, p + offset, sizeof x);
    return x;
}

static const char *take_descriptor(struct code *c, const struct kernel *k, const uint8_t *d)
{
    uint64_t entry = k->descriptor + (word_at(d, 16) | (uint64_t)word_at(d, 20) << 32);
    c->lds_bytes = word_at(d, 0), c->scratch_bytes = word_at(d, 4), c->kernarg_bytes = word_at(d, 8);
    c->rsrc3 = word_at(d, 44), c->rsrc1 = word_at(d, 48), c->rsrc2 = word_at(d, 52);
    c->properties = word_at(d, 56) & 0xffff;
    if (entry != k->entry)
        return "the descriptor begins elsewhere than the code";
    if (!(c->properties & 1u << 10))
        return "waves of 64";
    if (word_at(d, 56) >> 16)
        return "arguments in registers";
    return c->lds_bytes > 65536 ? "more LDS than there is" : NULL;
}

static const char *decode_all(struct code *c, const uint8_t *text, uint64_t bytes)
{
    c->n_words = (uint32_t)(bytes / 4);
    uint32_t *word = malloc((size_t)c->n_words * sizeof *word + 4);
    c->inst = calloc((size_t)c->n_words + 1, sizeof *c->inst);
    c->second = calloc((size_t)c->n_words + 1, sizeof *c->second);
    if (!word || !c->inst || !c->second) {
        free(word);
        return "out of memory";
    }
    memcpy(word, text, (size_t)c->n_words * 4);
    for (uint32_t i = 0; i < c->n_words; i += c->inst[i].n_words)
        gfx11_decode(&c->inst[i], &c->second[i], word + i, c->n_words - i, 4 * i);
    free(word);
    return NULL;
}

static const char *load(struct code *c, const struct file *f)
{
    Elf64_Ehdr e;
    struct kernel k = { 0 };
    if (f->n < sizeof e)
        return "not an ELF file";
    memcpy(&e, f->p, sizeof e);
    if (memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_machine != MACHINE_AMDGPU)
        return "not a 64-bit ELF file for an AMD GPU";
    if ((e.e_flags & 0xff) != FLAGS_GFX1151)
        return "not for gfx1151";
    const char *wrong = find_kernel(f, &e, &k);
    if (wrong)
        return wrong;
    const uint8_t *d = at_address(f, &e, k.descriptor, DESCRIPTOR), *text = at_address(f, &e, k.entry, k.bytes);
    if (!d || !text || k.bytes > 1 << 24)
        return "code or descriptor lies outside of the file";
    memcpy(c->name, k.name, sizeof c->name);
    wrong = take_descriptor(c, &k, d);
    return wrong ? wrong : decode_all(c, text, k.bytes);
}

status gfx11_load(struct code **out, const void *file, size_t bytes, struct err *e)
{
    const struct file f = { file, bytes };
    struct code *c = calloc(1, sizeof *c);
    if (!c)
        return fail(e, ERR_NOMEM, "code object");
    const char *wrong = load(c, &f);
    if (wrong) {
        gfx11_unload(c);
        return fail(e, ERR_FORMAT, "code object: %s", wrong);
    }
    *out = c;
    return OK;
}

void gfx11_unload(struct code *c)
{
    if (!c)
        return;
    free(c->inst);
    free(c->second);
    free(c);
}

size_t gfx11_code_bytes(const struct code *c) { return (size_t)c->n_words * 4; }

size_t gfx11_disassemble(const struct code *c, size_t offset, char *text, size_t size)
{
    text[0] = 0;
    if (offset % 4 || offset / 4 >= c->n_words || !c->inst[offset / 4].n_words)
        return 0;
    const struct inst *in = &c->inst[offset / 4];
    if (in->op)
        gfx11_text(text, size, in);
    return 4u * in->n_words;
}

void gfx11_coverage(const struct code *c, const uint64_t *ran, uint32_t *n_ran, uint32_t *n_all)
{
    *n_ran = *n_all = 0;
    for (uint32_t i = 0; i < c->n_words && c->inst[i].n_words; i += c->inst[i].n_words)
        *n_ran += ran[i] != 0, ++*n_all;
}
