/* prop_together.c - several answers at once, with guesses: each has the ids, and leaves the state, that it has alone and without guesses.
 *
 * Random prompts, seeds, temperatures, penalties, numbers of guesses and of places, and instants at which an answer begins. Logits and windows that answers
 * share are where one could see what another left, so an answer may end, and the next begin at its place, while the others have rows ahead of them.
 *
 *     prop_together                   6 rounds on the cpu; 80 with TEST_SIZE=long, 2 with short. One on the first Vulkan device, 4 and none
 *     prop_together cpu|vulkan|hip N  N rounds there
 *
 * On a device prompts have up to 16 tokens and answers 8: a step of lavapipe takes a quarter of a second. */
#include "model/speculate.h"
#include "tests/session_case.h"
#include "tests/test.h"
#include "tests/vulkan_device.h"

#include <stdlib.h>
#include <string.h>

static struct err e;

enum { PROMPT = 150, ANSWER = 60, CTX = PROMPT + ANSWER };
static struct {
    uint32_t prompt, answer;
    bool device, precise; /* precise: only so, without matrix units, which the runtime that stands in for HIP lacks */
} limit;
static uint32_t rnd(uint32_t n) { return (uint32_t)rand() % n; }

static size_t n_bytes; /* that malloc was asked for */
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n)
{
    n_bytes += n;
    return __real_malloc(n);
}

static struct draft_stats sum;
static uint64_t n_shared; /* guesses in steps of several answers */

struct setting {
    struct sample_params sample;
    int draft;
    uint32_t n_best;
    bool precise;
};

struct task {
    int32_t prompt[PROMPT], out[ANSWER], want[ANSWER];
    void *mark; /* the state at the end of what is wanted */
    uint32_t n_prompt, n_answer, n;
    uint64_t seed;
    session *s;
    struct speculator sp;
    sampler *sample;
    bool busy;
};

/* Words of a page, or any ids; said twice, so that there is something to quote */
static void make_task(const model *m, const struct ids *page, struct task *t)
{
    uint32_t from = rnd((uint32_t)page->n - PROMPT), half;
    t->n_prompt = 1 + rnd(limit.prompt);
    t->n_answer = limit.device ? limit.answer - rnd(3) : 1 + rnd(limit.answer);
    t->n = 0;
    t->seed = (uint64_t)rand();
    half = 1 + rnd(t->n_prompt);
    for (uint32_t i = 0; i < t->n_prompt; i++)
        t->prompt[i] = i >= half ? t->prompt[i - half] : rnd(9) ? page->v[from + i] : (int32_t)rnd(model_shape(m)->n_vocab);
}

static void open_sampler(const model *m, const struct setting *set, struct task *t)
{
    struct sample_params p = set->sample;
    p.seed = t->seed;
    MUST(sampler_open(&t->sample, model_shape(m)->n_vocab, &p, &e));
    for (uint32_t i = 0; i < t->n_prompt; i++)
        sampler_accept(t->sample, t->prompt[i]);
}

static void choose(const struct setting *set, struct task *t)
{
    size_t k;
    const struct candidate *best = session_best(t->s, &k);
    int32_t id = set->n_best ? sampler_choose_best(t->sample, best, k, NULL, 0) : sampler_choose(t->sample, session_logits(t->s), NULL, 0);
    sampler_accept(t->sample, id);
    t->out[t->n++] = id;
}

static void *mark_of(session *s)
{
    void *mark = calloc(1, session_mark_bytes(s));
    MUST(session_mark(s, mark, &e));
    return mark;
}

/* The same answer alone and without guesses, and what it leaves */
static void answer_alone(model *m, const struct setting *set, struct task *t)
{
    struct session_params p = { .n_ctx = CTX, .precise = set->precise };
    struct task alone = *t;
    MUST(session_open(&alone.s, m, &p, 0, &e));
    session_want(alone.s, set->n_best);
    open_sampler(m, set, &alone);
    MUST(session_prefill(alone.s, alone.prompt, alone.n_prompt, NULL, NULL, &e));
    MUST(session_flush(alone.s, NULL, NULL, &e));
    for (choose(set, &alone); alone.n < alone.n_answer; choose(set, &alone))
        MUST(session_decode(alone.s, alone.out[alone.n - 1], &e));
    memcpy(t->want, alone.out, sizeof t->want);
    t->mark = mark_of(alone.s);
    sampler_close(alone.sample);
    session_close(alone.s);
}

/* What guesses are looked up in: the prompt; where answers are too short to repeat anything, the answer itself before it, with a mistake */
static void begin_guesses(struct task *t)
{
    int32_t text[2 * PROMPT + ANSWER];
    size_t n = 0;
    if (limit.device) {
        memcpy(text, t->prompt, t->n_prompt * sizeof *text);
        memcpy(text + t->n_prompt, t->want, t->n_answer * sizeof *text);
        n = t->n_prompt + t->n_answer;
        text[t->n_prompt + 1 + rnd(t->n_answer - 3)] ^= 1; /* where a guess is made: neither of the first id nor of the last */
    }
    memcpy(text + n, t->prompt, t->n_prompt * sizeof *text);
    speculate_begin(&t->sp, text, n + t->n_prompt);
}

/* Tokens that the last step has left for an answer */
static void take(const struct setting *set, struct task *t)
{
    do
        choose(set, t);
    while (t->n < t->n_answer && speculate_follow(&t->sp, t->out[t->n - 1]));
    if (t->n < t->n_answer)
        return;
    speculate_end(&t->sp);
    drafts_add(&sum, &t->sp.stats);
    void *mark = mark_of(t->s);
    CHECK(memcmp(t->out, t->want, t->n * sizeof *t->out) == 0);
    CHECK(memcmp(mark, t->mark, session_mark_bytes(t->s)) == 0);
    free(mark);
    free(t->mark);
    sampler_close(t->sample);
    t->busy = false;
}

static void begin(model *m, const struct ids *page, const struct setting *set, struct task *t)
{
    make_task(m, page, t);
    answer_alone(m, set, t);
    open_sampler(m, set, t);
    MUST(session_reset(t->s, &e));
    MUST(session_prefill(t->s, t->prompt, t->n_prompt, NULL, NULL, &e));
    MUST(session_flush(t->s, NULL, NULL, &e));
    begin_guesses(t);
    t->busy = true;
    take(set, t);
}

static void step(const struct setting *set, struct task *task, uint32_t n_place, struct odds *odds)
{
    struct task *of[SESSION_SEQ_MAX];
    struct speculator *sp[SESSION_SEQ_MAX];
    int32_t ids[SESSION_SEQ_MAX];
    size_t room[SESSION_SEQ_MAX];
    uint32_t n = 0;
    for (uint32_t k = 0; k < n_place; k++)
        if (task[k].busy) {
            of[n] = &task[k];
            sp[n] = &task[k].sp;
            ids[n] = task[k].out[task[k].n - 1];
            room[n++] = task[k].n_answer - task[k].n;
        }
    if (n == 0)
        return;
    size_t before = n_bytes;
    MUST(n == 1 ? speculate_step(sp[0], ids[0], room[0], &e) : speculate_rows(sp, ids, room, n, &odds[n], &e));
    CHECK(n_bytes == before || limit.device); /* nothing between two tokens; a device's form of a list comes with its first step */
    for (uint32_t i = 0; i < n && n > 1; i++)
        n_shared += sp[i]->n_guess;
    for (uint32_t i = 0; i < n; i++)
        take(set, of[i]);
}

/* Bytes of the tables by the plan */
static size_t planned_tables(const model *m, const struct session_params *p)
{
    struct plan plan = { 0 };
    session_plan(m, p, &plan);
    for (size_t i = 0; i < plan.n; i++)
        if (strcmp(plan.line[i].name, "drafts: look-up tables") == 0)
            return plan.line[i].bytes;
    return 0;
}

static void round_of(model *m, const struct ids *page, uint32_t i)
{
    static const float temp[] = { 0, 0.3f, 0.8f, 1.2f };
    struct setting set = { .sample = SAMPLE_DEFAULTS, .draft = i % 3 == 2 ? DRAFT_AUTO : 1 + (int)rnd(DRAFT_MAX), .precise = rnd(3) == 0 || limit.precise };
    static struct task task[SESSION_SEQ_MAX];
    struct odds odds[SESSION_SEQ_MAX + 1] = { 0 };
    uint32_t n_place = i % 4 == 3 ? SESSION_SEQ_MAX : 2 + rnd(3), n_task = limit.device ? n_place + 2 : 2 * n_place + 2;
    session *first;
    set.sample.temp = temp[i % COUNT_OF(temp)];
    set.sample.top_k = rnd(4) ? 20 : 0;
    set.sample.repeat_penalty = rnd(4) ? 1 : 1.1f;
    memset(task, 0, sizeof task);
    const struct session_params p = { .n_ctx = CTX, .n_seq = n_place, .verify = true, .precise = set.precise, .head = !limit.device && i % 2 == 0 };
    MUST(session_open(&first, m, &p, 0, &e));
    CHECK(session_has_head(session_place(first, 1)) == p.head);
    make_task(m, page, &task[0]);
    open_sampler(m, &set, &task[0]);
    size_t needs = sampler_needs(task[0].sample, 0);
    sampler_close(task[0].sample);
    set.n_best = needs <= SESSION_BEST_MAX ? (uint32_t)needs : 0;
    session_want(first, set.n_best);
    size_t before = n_bytes;
    for (uint32_t k = 0; k < n_place; k++) {
        task[k].s = session_place(first, k);
        MUST(speculate_open(&task[k].sp, task[k].s, set.draft, &e));
    }
    CHECK(n_bytes - before == planned_tables(m, &p));
    for (bool any = true; n_task || any;) {
        for (uint32_t k = 0; k < n_place && n_task; k++)
            if (!task[k].busy && (limit.device || rnd(4) == 0)) {
                begin(m, page, &set, &task[k]);
                n_task--;
            }
        step(&set, task, n_place, odds);
        any = false;
        for (uint32_t k = 0; k < n_place; k++)
            any |= task[k].busy;
    }
    if (test_failed)
        fprintf(stderr, "round %u: %u places, draft %d, temperature %g\n", i, n_place, set.draft, (double)set.sample.temp);
    for (uint32_t k = 0; k < n_place; k++)
        speculate_close(&task[k].sp);
    session_close(first);
}

static void rounds_on(enum backend backend, uint32_t n)
{
    model *m;
    struct ids page = { 0 };
    limit.device = backend != BACKEND_CPU;
    limit.precise = backend == BACKEND_HIP;
    limit.prompt = limit.device ? 16 : PROMPT;
    limit.answer = limit.device ? 8 : ANSWER;
    memset(&sum, 0, sizeof sum);
    n_shared = 0;
    MUST(model_open(&m, "tests/models/tiny-man.gguf", &(struct model_params){ .n_threads = 2, .backend = backend, .device = test_device() }, &e));
    sample_page(m, &page, 2 * PROMPT);
    for (uint32_t i = 0; i < n && page.n > 2 * PROMPT; i++)
        round_of(m, &page, i);
    CHECK(sum.accepted > 0 && sum.drafted > sum.accepted && n_shared > 0); /* both outcomes, and rows of several with guesses, were there */
    CHECK(limit.device || (sum.head_accepted > 0 && sum.head_drafted > sum.head_accepted));
    printf("%s: %llu ids in %llu passes, %llu of %llu guesses accepted; %llu guessed in steps of several answers, %llu of %llu of heads\n", model_backend(m),
           (unsigned long long)sum.tokens, (unsigned long long)sum.passes, (unsigned long long)sum.accepted, (unsigned long long)sum.drafted, (unsigned long long)n_shared,
           (unsigned long long)sum.head_accepted, (unsigned long long)sum.head_drafted);
    ids_free(&page);
    model_close(m);
}

int main(int argc, char **argv)
{
    uint32_t n_cpu = test_size(2, 6, 80), n_device = test_size(0, 1, 4);
    srand((unsigned)test_seed(2041));
    if (argc == 3) {
        rounds_on(strcmp(argv[1], "hip") == 0 ? BACKEND_HIP : strcmp(argv[1], "vulkan") == 0 ? BACKEND_VULKAN : BACKEND_CPU, (uint32_t)atoi(argv[2]));
        return TEST_END();
    }
    rounds_on(BACKEND_CPU, n_cpu);
    if (n_device && !device_found(__FILE__, &e))
        printf("%-28s skipped on vulkan: %s\n", __FILE__, e.msg);
    else if (n_device)
        rounds_on(BACKEND_VULKAN, n_device);
    return TEST_END();
}
