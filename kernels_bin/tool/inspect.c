/* inspect.c - SPIR-V is walked word by word; a code object is an ELF file whose metadata note is a msgpack map. Both are read with bounds
 * checks everywhere: a damaged binary is a message, not a crash. */
#include "kernels_bin/tool/inspect.h"

#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED_BASE = 24 * 1024 };

/* ---- SPIR-V ---- */

enum spirv_op {
    OP_CAPABILITY = 17, OP_ENTRY_POINT = 15, OP_EXECUTION_MODE = 16, OP_TYPE_INT = 21, OP_TYPE_FLOAT = 22, OP_TYPE_VECTOR = 23, OP_TYPE_ARRAY = 28,
    OP_TYPE_STRUCT = 30, OP_TYPE_POINTER = 32, OP_CONSTANT = 43, OP_VARIABLE = 59, OP_DECORATE = 71, OP_MEMBER_DECORATE = 72,
    OP_EXECUTION_MODE_ID = 331,
};
enum { MODEL_COMPUTE = 5, MODE_LOCAL_SIZE = 17, MODE_LOCAL_SIZE_ID = 38, CAP_MATRIX = 6022, CLASS_WORKGROUP = 4, CLASS_PUSH = 9, CLASS_ADDRESS = 5349, DECORATION_OFFSET = 35 };
enum { DEPTH_MAX = 16 };

struct module {
    const uint32_t *w;
    size_t n;
    uint32_t bound;
    uint32_t *def; /* id -> index of the instruction that makes it; 0: none */
};

static uint32_t op_at(const struct module *m, uint32_t id) { return id < m->bound && m->def[id] ? m->w[m->def[id]] & 0xffff : 0; }
static const uint32_t *args_of(const struct module *m, uint32_t id) { return m->w + m->def[id] + 1; }
static uint32_t words_of(const struct module *m, uint32_t id) { return m->w[m->def[id]] >> 16; }

static uint32_t constant(const struct module *m, uint32_t id) { return op_at(m, id) == OP_CONSTANT ? args_of(m, id)[2] : 0; }

/* The fewest words an instruction that is read below may have, and where in it its id stands (0: makes none). */
static bool shape_of(uint32_t op, uint32_t *min, uint32_t *id_at)
{
    *id_at = 1;
    switch (op) {
    case OP_CAPABILITY: *min = 2, *id_at = 0; return true;
    case OP_ENTRY_POINT: *min = 4, *id_at = 0; return true;
    case OP_EXECUTION_MODE_ID:
    case OP_EXECUTION_MODE: *min = 3, *id_at = 0; return true;
    case OP_DECORATE: *min = 3, *id_at = 0; return true;
    case OP_MEMBER_DECORATE: *min = 4, *id_at = 0; return true;
    case OP_TYPE_INT: *min = 4; return true;
    case OP_TYPE_FLOAT: *min = 3; return true;
    case OP_TYPE_VECTOR: *min = 4; return true;
    case OP_TYPE_ARRAY: *min = 4; return true;
    case OP_TYPE_STRUCT: *min = 2; return true;
    case OP_TYPE_POINTER: *min = 4; return true;
    case OP_CONSTANT: *min = 4, *id_at = 2; return true;
    case OP_VARIABLE: *min = 4, *id_at = 2; return true;
    default: return false;
    }
}

static uint32_t member_offset(const struct module *m, uint32_t type, uint32_t member)
{
    for (size_t i = 5; i < m->n; i += m->w[i] >> 16)
        if ((m->w[i] & 0xffff) == OP_MEMBER_DECORATE && m->w[i] >> 16 == 5 && m->w[i + 1] == type && m->w[i + 2] == member
            && m->w[i + 3] == DECORATION_OFFSET)
            return m->w[i + 4];
    return UINT32_MAX;
}

/* Bytes of a type under scalar layout, and its alignment; 0: not a type that data is made of. A type only refers to types before it. */
static uint64_t type_bytes(const struct module *m, uint32_t id, uint32_t before, uint32_t *align)
{
    *align = 1;
    uint32_t op = op_at(m, id), at = op ? m->def[id] : 0;
    if (!op || at >= before)
        return 0;
    const uint32_t *a = args_of(m, id);
    uint64_t n = 0;
    switch (op) {
    case OP_TYPE_INT:
    case OP_TYPE_FLOAT: return *align = a[1] < 8 ? 1 : a[1] / 8;
    case OP_TYPE_VECTOR: n = a[2]; return n * type_bytes(m, a[1], at, align);
    case OP_TYPE_POINTER: return *align = 8;
    case OP_TYPE_ARRAY: n = constant(m, a[2]); return n * type_bytes(m, a[1], at, align);
    case OP_TYPE_STRUCT:
        for (uint32_t i = 0; i + 2 < words_of(m, id); i++) {
            uint32_t own, offset = member_offset(m, id, i);
            uint64_t bytes = type_bytes(m, a[1 + i], at, &own);
            n = (offset != UINT32_MAX ? offset : (n + own - 1) / own * own) + bytes;
            *align = own > *align ? own : *align;
        }
        return (n + *align - 1) / *align * *align;
    default: return 0;
    }
}

static void take_variable(const struct module *m, const uint32_t *a, struct spirv_info *info)
{
    uint32_t align;
    if ((a[2] == CLASS_WORKGROUP || a[2] == CLASS_PUSH) && op_at(m, a[0]) == OP_TYPE_POINTER) {
        uint32_t bytes = (uint32_t)type_bytes(m, args_of(m, a[0])[2], UINT32_MAX, &align);
        *(a[2] == CLASS_PUSH ? &info->push_bytes : &info->shared_bytes) += bytes;
    }
}

static const char *take_instructions(const struct module *m, struct spirv_info *info)
{
    for (size_t i = 5; i < m->n; i += m->w[i] >> 16) {
        uint32_t op = m->w[i] & 0xffff, words = m->w[i] >> 16;
        const uint32_t *a = m->w + i + 1;
        if (op == OP_CAPABILITY && a[0] == CAP_MATRIX)
            info->matrix = true;
        if (op == OP_ENTRY_POINT) {
            if (a[0] != MODEL_COMPUTE || info->entry[0])
                return "not one compute entry point";
            size_t room = (words - 3) * 4u;
            snprintf(info->entry, sizeof info->entry, "%.*s", (int)(room < 63 ? room : 63), (const char *)(a + 2));
        }
        if (op == OP_EXECUTION_MODE && a[1] == MODE_LOCAL_SIZE && words == 6)
            memcpy(info->local, a + 2, sizeof info->local);
        for (int k = 0; op == OP_EXECUTION_MODE_ID && a[1] == MODE_LOCAL_SIZE_ID && words == 6 && k < 3; k++)
            info->local[k] = constant(m, a[2 + k]);
        if (op == OP_VARIABLE)
            take_variable(m, a, info);
    }
    return info->entry[0] ? NULL : "no entry point";
}

static const char *index_ids(struct module *m)
{
    for (size_t i = 5; i < m->n;) {
        uint32_t op = m->w[i] & 0xffff, words = m->w[i] >> 16, min, id_at;
        if (words == 0 || words > m->n - i)
            return "an instruction runs over the end";
        if (shape_of(op, &min, &id_at)) {
            if (words < min || (id_at && m->w[i + id_at] >= m->bound))
                return "a malformed instruction";
            if (id_at)
                m->def[m->w[i + id_at]] = (uint32_t)i;
        }
        i += words;
    }
    return NULL;
}

const char *spirv_inspect(struct spirv_info *info, const void *bytes, size_t n)
{
    enum { MAGIC = 0x07230203, BOUND_MAX = 1 << 22 };
    *info = (struct spirv_info){ 0 };
    struct module m = { .n = n / 4 };
    if (n % 4 || m.n < 5 || m.n > UINT32_MAX)
        return "not a whole number of words";
    uint32_t *w = malloc(n);
    if (!w)
        return "out of memory";
    memcpy(w, bytes, n);
    m.w = w, m.bound = w[3];
    const char *wrong = w[0] != MAGIC || m.bound > BOUND_MAX ? "not SPIR-V" : NULL;
    if (!wrong) {
        m.def = calloc(m.bound + 1, sizeof *m.def);
        wrong = !m.def ? "out of memory" : index_ids(&m);
    }
    if (!wrong)
        wrong = take_instructions(&m, info);
    free(m.def);
    free(w);
    return wrong;
}

/* ---- code objects ---- */

/* A reader of msgpack: only what the metadata is made of. After an error it stays at the end. */
struct pack {
    const uint8_t *p, *end;
    bool bad;
};
enum pack_kind { PACK_UINT, PACK_STR, PACK_ARRAY, PACK_MAP, PACK_OTHER };
struct item {
    enum pack_kind kind;
    uint64_t n;       /* value, bytes or elements */
    const uint8_t *p; /* of a string */
};

static uint64_t pack_be(struct pack *s, unsigned bytes)
{
    uint64_t v = 0;
    if ((size_t)(s->end - s->p) < bytes) {
        s->bad = true, s->p = s->end;
        return 0;
    }
    while (bytes--)
        v = v << 8 | *s->p++;
    return v;
}
static struct item pack_str(struct pack *s, uint64_t n)
{
    if ((uint64_t)(s->end - s->p) < n) {
        s->bad = true, s->p = s->end;
        return (struct item){ .kind = PACK_STR, .p = s->end };
    }
    s->p += n;
    return (struct item){ PACK_STR, n, s->p - n };
}
static struct item pack_next(struct pack *s)
{
    uint8_t c = (uint8_t)pack_be(s, 1);
    if (s->bad)
        return (struct item){ .kind = PACK_OTHER };
    if (c < 0x80)
        return (struct item){ PACK_UINT, c, NULL };
    if (c < 0x90)
        return (struct item){ PACK_MAP, c & 15, NULL };
    if (c < 0xa0)
        return (struct item){ PACK_ARRAY, c & 15, NULL };
    if (c < 0xc0)
        return pack_str(s, c & 31);
    if (c >= 0xcc && c <= 0xcf)
        return (struct item){ PACK_UINT, pack_be(s, 1u << (c - 0xcc)), NULL };
    if (c >= 0xd9 && c <= 0xdb)
        return pack_str(s, pack_be(s, 1u << (c - 0xd9)));
    if (c == 0xdc || c == 0xdd)
        return (struct item){ PACK_ARRAY, pack_be(s, c == 0xdc ? 2 : 4), NULL };
    if (c == 0xde || c == 0xdf)
        return (struct item){ PACK_MAP, pack_be(s, c == 0xde ? 2 : 4), NULL };
    if (c == 0xc0 || c == 0xc2 || c == 0xc3 || c >= 0xe0)
        return (struct item){ .kind = PACK_OTHER };
    s->bad = true, s->p = s->end;
    return (struct item){ .kind = PACK_OTHER };
}
/* Passes over what is inside an item just read. */
static void pack_skip(struct pack *s, struct item it, int depth)
{
    uint64_t n = it.kind == PACK_MAP ? 2 * it.n : it.kind == PACK_ARRAY ? it.n : 0;
    if (depth > DEPTH_MAX)
        s->bad = true;
    for (uint64_t i = 0; i < n && !s->bad; i++)
        pack_skip(s, pack_next(s), depth + 1);
}
static bool key_is(struct item k, const char *name) { return k.kind == PACK_STR && k.n == strlen(name) && memcmp(k.p, name, k.n) == 0; }
static void copy_str(char *to, size_t size, struct item it)
{
    if (it.kind == PACK_STR)
        snprintf(to, size, "%.*s", (int)(it.n < size ? it.n : size - 1), (const char *)it.p);
}

static void take_kernel(struct pack *s, struct item map, struct code_info *info)
{
    const struct {
        const char *key;
        uint32_t *to;
    } field[] = {
        { ".kernarg_segment_size", &info->kernarg }, { ".max_flat_workgroup_size", &info->workgroup }, { ".wavefront_size", &info->wavefront },
        { ".vgpr_count", &info->vgpr }, { ".sgpr_count", &info->sgpr }, { ".group_segment_fixed_size", &info->lds },
        { ".private_segment_fixed_size", &info->scratch }, { ".vgpr_spill_count", &info->vgpr_spills },
        { ".sgpr_spill_count", &info->sgpr_spills },
    };
    for (uint64_t i = 0; map.kind == PACK_MAP && i < map.n && !s->bad; i++) {
        struct item key = pack_next(s), value = pack_next(s);
        if (key_is(key, ".name"))
            copy_str(info->name, sizeof info->name, value);
        for (size_t f = 0; f < sizeof field / sizeof *field; f++)
            if (key_is(key, field[f].key) && value.kind == PACK_UINT)
                *field[f].to = (uint32_t)value.n;
        pack_skip(s, value, 0);
    }
}

static const char *take_metadata(struct code_info *info, const uint8_t *p, size_t n)
{
    struct pack s = { p, p + n, false };
    struct item top = pack_next(&s);
    uint64_t kernels = 0;
    for (uint64_t i = 0; top.kind == PACK_MAP && i < top.n && !s.bad; i++) {
        struct item key = pack_next(&s), value = pack_next(&s);
        if (key_is(key, "amdhsa.target"))
            copy_str(info->target, sizeof info->target, value);
        if (!key_is(key, "amdhsa.kernels") || value.kind != PACK_ARRAY) {
            pack_skip(&s, value, 0);
            continue;
        }
        for (kernels = 0; kernels < value.n && !s.bad; kernels++)
            take_kernel(&s, pack_next(&s), info);
    }
    return s.bad ? "damaged metadata" : kernels != 1 ? "not one kernel" : NULL;
}

/* The note of the metadata inside one segment of notes. */
static const char *find_note(struct code_info *info, const uint8_t *p, size_t n)
{
    enum { NOTE_METADATA = 32 };
    Elf64_Nhdr h;
    while (n >= sizeof h) {
        memcpy(&h, p, sizeof h);
        size_t name = (h.n_namesz + 3u) & ~(size_t)3, desc = (h.n_descsz + 3u) & ~(size_t)3;
        if (name > n - sizeof h || desc > n - sizeof h - name)
            return "damaged notes";
        if (h.n_type == NOTE_METADATA && h.n_namesz == 7 && memcmp(p + sizeof h, "AMDGPU", 7) == 0)
            return take_metadata(info, p + sizeof h + name, h.n_descsz);
        p += sizeof h + name + desc, n -= sizeof h + name + desc;
    }
    return "no metadata";
}

const char *code_inspect(struct code_info *info, const void *bytes, size_t n)
{
    enum { MACHINE_AMDGPU = 224 };
    Elf64_Ehdr e;
    *info = (struct code_info){ 0 };
    if (n < sizeof e)
        return "not an ELF file";
    memcpy(&e, bytes, sizeof e);
    if (memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_machine != MACHINE_AMDGPU)
        return "not a 64-bit ELF file for an AMD GPU";
    for (uint16_t i = 0; i < e.e_phnum; i++) {
        Elf64_Phdr h;
        uint64_t at = e.e_phoff + (uint64_t)i * sizeof h;
        if (e.e_phoff > n || at > n || sizeof h > n - at)
            return "damaged program headers";
        memcpy(&h, (const uint8_t *)bytes + at, sizeof h);
        if (h.p_type != PT_NOTE)
            continue;
        if (h.p_offset > n || h.p_filesz > n - h.p_offset)
            return "damaged program headers";
        return find_note(info, (const uint8_t *)bytes + h.p_offset, h.p_filesz);
    }
    return "no notes";
}

/* ---- comparing with a row ---- */

static char text[160];
__attribute__((format(printf, 1, 2))) static const char *say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return text;
}

const char *spirv_differs(const struct kernel_want *w, const void *bytes, size_t n, struct spirv_info *info)
{
    const char *wrong = spirv_inspect(info, bytes, n);
    if (wrong)
        return wrong;
    if (strcmp(info->entry, "main") != 0)
        return say("entry point %s, wanted main", info->entry);
    if (info->local[0] != w->workgroup || info->local[1] != 1 || info->local[2] != 1)
        return say("workgroup %u x %u x %u, the row has %u", info->local[0], info->local[1], info->local[2], w->workgroup);
    if (info->push_bytes != w->args_bytes)
        return say("%u bytes of push constants, the row has %u of arguments", info->push_bytes, w->args_bytes);
    if (w->base && info->shared_bytes > SHARED_BASE)
        return say("%u bytes of shared memory, at most %d in a base row", info->shared_bytes, SHARED_BASE);
    if (info->matrix && !w->matrix)
        return "uses cooperative matrices, but the row does not say so";
    return NULL;
}

const char *code_differs(const struct kernel_want *w, const void *bytes, size_t n, struct code_info *info)
{
    const char *wrong = code_inspect(info, bytes, n);
    if (wrong)
        return wrong;
    if (strcmp(info->target, "amdgcn-amd-amdhsa--gfx1151") != 0)
        return say("for %s, wanted gfx1151", info->target);
    if (strcmp(info->name, w->id) != 0)
        return say("kernel %s, wanted %s", info->name, w->id);
    if (info->kernarg != w->args_bytes)
        return say("%u bytes of kernel arguments, the row has %u", info->kernarg, w->args_bytes);
    if (info->workgroup != w->workgroup)
        return say("workgroup %u, the row has %u", info->workgroup, w->workgroup);
    if (info->wavefront != 32)
        return say("wavefront %u, wanted 32", info->wavefront);
    if (info->scratch || info->vgpr_spills) /* scalar registers spill to lanes of vector registers, not to memory */
        return say("%u bytes of scratch, %u vector registers spilled; wanted none", info->scratch, info->vgpr_spills);
    return NULL;
}
