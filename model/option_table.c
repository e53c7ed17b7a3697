/* option_table.c - one row per option.
 *
 * Every spelling is accepted with one dash or two, whole or not at all: an abbreviation could mean another option tomorrow. A row of
 * kind LATER is known and refused by name; NOTHING is an option of other programs that has no meaning here and is taken with a note. */
#define _GNU_SOURCE /* getopt_long_only */
#include "model/option_rows.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const option_group_name[N_GROUP] = { "Model", "What to do", "Input", "Answer", "Sampling", "Memory and speed", "Output", "" };

#define ON(c) (1u << CMD_##c)
#define ASK    (ON(RUN) | ON(BATCH))
#define ENGINE (ASK | ON(BENCH) | ON(EVAL) | ON(INFO))
#define TALKS  (ENGINE | ON(TOKENIZE) | ON(SPLIT) | ON(SELFTEST))
#define ANY (~0u)
#define AT(field) offsetof(struct options, field)
#define BIG 2147483647.0
#define DRAFT_CHOICES "off auto 1 2 3 4 5 6 7"

#define IGNORED(n, a) { .names = n, .arg = a, .commands = ENGINE, .group = G_HIDDEN, .kind = NOTHING }
#define NOT_YET(n, a, c) { .names = n, .arg = a, .commands = c, .group = G_HIDDEN, .kind = LATER }

const struct option_row option_rows[] = {
    { "-m --model", "FILE", ENGINE | ON(TOKENIZE), G_MODEL, MODEL, AT(model_path), .def = "$HAYATE_MODEL, else the built-in demo",
      .help = "GGUF file; of a set of shards any one" },

    { "-p --prompt", "TEXT", ASK, G_INPUT, STRING, AT(instruction), .def = "ask for a summary",
      .help = "instruction, put before the document" },
    { "-f --file", "FILE", ASK, G_INPUT, INPUT, .help = "an input, the same as FILE; - is standard input" },
    { "--encoding", "NAME", ASK, G_INPUT, STRING, AT(encoding), .def = "recognised",
      .help = "encoding of the inputs, as iconv calls it: UTF-8, Shift_JIS, EUC-JP, ISO-8859-1" },
    { "--long", "MODE", ASK, G_INPUT, CHOICE, AT(long_mode), .choices = "refuse head-tail split", .def = "refuse",
      .help = "a document longer than the context: refuse it, take its beginning and end, or split it and summarize the summaries" },
    { "-sys --system --system-prompt", "TEXT", ASK, G_INPUT, STRING, AT(system), .def = "none", .help = "system message" },
    { "--raw", NULL, ASK, G_INPUT, FLAG, AT(raw), .help = "no chat template: the text is the prompt" },
    { "--parse-special", NULL, ASK, G_INPUT, FLAG, AT(parse_special),
      .help = "with --raw: <|im_end|> and the like in the text are tokens" },
    { "--print-prompt", NULL, ON(RUN), G_INPUT, FLAG, AT(print_prompt), .help = "print the prompt and stop" },

    { "-n --predict --n-predict", "N", ASK, G_ANSWER, UINT32, AT(n_predict), 1, BIG, .def = "1024", .help = "generate at most N tokens" },
    { "-rea --reasoning", "on|off", ASK, G_ANSWER, CHOICE, AT(reasoning), .choices = "off on", .later = "auto", .def = "off",
      .help = "let the model think first; thoughts go to stderr" },
    { "--reasoning-effort", "LEVEL", ASK, G_ANSWER, CHOICE, AT(effort), .choices = "xhigh medium low", .def = "xhigh",
      .help = "with --reasoning on: xhigh, medium or low" },
    { "--ignore-eos", NULL, ASK, G_ANSWER, FLAG, AT(ignore_eos), .help = "never stop before -n" },

    { "--temp --temperature", "X", ASK, G_SAMPLING, FLOAT, AT(sample.temp), 0, 100, .def = "0", .help = "temperature; 0 takes the best token (greedy)" },
    { "--top-k", "N", ASK, G_SAMPLING, INT32, AT(sample.top_k), 0, BIG, .def = "20", .help = "only the N best; 0 is off" },
    { "--top-p", "X", ASK, G_SAMPLING, FLOAT, AT(sample.top_p), 0, 1, .def = "0.95", .help = "only the best that add up to X; 1 is off" },
    { "--min-p", "X", ASK, G_SAMPLING, FLOAT, AT(sample.min_p), 0, 1, .def = "0", .help = "only those at least X times as likely as the best" },
    { "--repeat-penalty", "X", ASK, G_SAMPLING, FLOAT, AT(sample.repeat_penalty), 0.01, 100, .def = "1",
      .help = "divides logits of the last 64 tokens; 1 is off" },
    { "--presence-penalty", "X", ASK, G_SAMPLING, FLOAT, AT(sample.presence_penalty), -100, 100, .def = "0",
      .help = "subtracted once per token in the last 64" },
    { "--frequency-penalty", "X", ASK, G_SAMPLING, FLOAT, AT(sample.frequency_penalty), -100, 100, .def = "0",
      .help = "subtracted per occurrence in the last 64" },
    { "--repeat-last-n", "N", ASK, G_HIDDEN, CHECKED, .lo = 64, .hi = 64 },
    { "-s --seed", "N", ASK, G_SAMPLING, UINT64, AT(sample.seed), .def = "0", .help = "start of the random stream" },

    { "-p --n-prompt", "N,..", ON(BENCH), G_WHAT, LIST, AT(b_prompt), 0, BIG, .def = "512", .help = "prompt lengths; 0 drops the test. All lists also take ranges: 128-512, 128-512+128, 128-1024*2" },
    { "-n --n-gen", "N,..", ON(BENCH), G_WHAT, LIST, AT(b_gen), 0, BIG, .def = "128", .help = "generated tokens; 0 drops the test" },
    { "-d --n-depth", "N,..", ON(BENCH), G_WHAT, LIST, AT(b_depth), 0, BIG, .def = "0", .help = "tokens already in the context, not timed" },
    { "--fill", "KIND", ON(BENCH), G_WHAT, CHOICE, AT(b_fill), .choices = "prompt random", .def = "prompt",
      .help = "how the depth is filled: prompt evaluates that many tokens, random writes random keys and values, which takes seconds" },
    { "-s --seed", "N", ON(BENCH), G_WHAT, UINT64, AT(sample.seed), .def = "0", .help = "start of the random tokens and of --fill random" },
    { "--sweep", "FIRST:LAST:STEP", ON(BENCH), G_WHAT, COLONS, AT(sweep), 3, 3,
      .help = "instead of -d: all these depths in one session of the largest, each filled on from the one before" },
    { "-f --file", "TEXT", ON(BENCH), G_WHAT, PATH, AT(bench_text), .def = "random ids",
      .help = "ids of this text; experts and blocks are chosen as real text does it" },
    { "--abba", "SWITCH", ON(BENCH), G_WHAT, STRING, AT(abba),
      .help = "compare with the same and SWITCH (in quotes: \"--kv f32\", \"-t 1\", \"-m OTHER\"), -r rounds of A B B A; the ratio and its 95 % interval" },
    { "--check", "RECORD", ON(BENCH), G_WHAT, PATH, AT(check),
      .help = "the tests of a file written with -o json or jsonl once more; exit 1 when one lies outside of twice the spread" },
    { "--cold", NULL, ON(BENCH), G_WHAT, FLAG, AT(cold),
      .help = "drop the model from the page cache before the load and before each test, whose first run is then shown by itself" },
    { "-r --repetitions", "N", ON(BENCH), G_WHAT, UINT32, AT(b_reps), 1, 1000, .def = "5", .help = "timed runs of each test, after one warm-up" },
    { "--profile", NULL, ON(BENCH) | ON(RUN), G_WHAT, FLAG, AT(profile),
      .help = "time, bytes and GB/s of every kernel row and part of the model, on stderr; bench: of one more run of each test" },
    { "--trace", "F.json", ON(BENCH) | ON(RUN), G_WHAT, PATH, AT(trace_path), .help = "the calls on a time line, for chrome://tracing or Perfetto" },

    { "--golden", "FILE...", ON(EVAL), G_WHAT, GOLDEN, .help = "compare with golden values (.gold, .layers); exit 1 outside the tolerance" },
    { "--ppl", "TEXT", ON(EVAL), G_WHAT, PPL, AT(ppl_path), .help = "perplexity of a file in chunks of -c (512), the second half of each scored" },
    { "--ppl-stride", "N", ON(EVAL), G_WHAT, SIZE, AT(ppl_stride), 1, BIG, .def = "chunks one after the other",
      .help = "with --ppl or --ids: a chunk every N tokens, of which the last N are scored" },
    { "--compare", "BACKEND|MODEL2", ON(EVAL), G_WHAT, STRING, AT(compare),
      .help = "with --ppl or --ids: KL divergence and agreement with the same model on another backend, or with another file" },
    { "--ids", "F.gold", ON(EVAL), G_WHAT, PATH, AT(ids_path), .help = "perplexity of the ids in a golden file" },

    { "--needle", "LEN,..", ON(EVAL), G_WHAT, LIST, AT(needle), 128, 1 << 20,
      .help = "16 access codes hidden in texts of LEN tokens, made of FILEs or of a built-in page: how many the answer states, and their mean nll" },
    { "-s --seed", "N", ON(EVAL), G_WHAT, UINT64, AT(sample.seed), .def = "0", .help = "start of the random texts of --needle" },

    { "--backend", "B", ON(SELFTEST), G_WHAT, CHOICE, AT(backend), .choices = BACKEND_CHOICES, .def = BACKEND_DEFAULT,
      .help = "auto, cpu, vulkan or hip" },
    { "-dev --device", "N", ON(SELFTEST), G_WHAT, UINT32, AT(device), 0, 1023, .def = "0", .help = "device of the backend, as info --devices counts" },
    { "--machine", NULL, ON(SELFTEST), G_WHAT, FLAG, AT(machine), .help = "measure the device instead: cost of a call, bandwidth by size, transfers" },
    { "--rounds", "N", ON(SELFTEST), G_WHAT, UINT32, AT(rounds), 1, 100000, .def = "42", .help = "random cases per row" },
    { "-s --seed", "N", ON(SELFTEST), G_WHAT, UINT64, AT(sample.seed), .def = "0", .help = "start of the random cases" },

    { "--plan", NULL, ON(INFO), G_WHAT, FLAG, AT(plan), .help = "every arena in bytes for -c, -ub, --kv; allocates nothing" },
    { "--tensors", NULL, ON(INFO), G_WHAT, FLAG, AT(tensors), .help = "list the tensors" },
    { "--keys", NULL, ON(INFO), G_WHAT, FLAG, AT(keys), .help = "list the metadata keys" },
    { "--devices", NULL, ON(INFO), G_WHAT, FLAG, AT(devices), .help = "list the devices of every backend, and nothing else" },
    { "--kernels", NULL, ON(INFO), G_WHAT, FLAG, AT(kernels), .help = "list the GPU kernels of this build, and nothing else" },

    { "--ledger", NULL, ON(INFO), G_WHAT, FLAG, AT(ledger),
      .help = "bytes, operations and calls of a decode step and of a prompt step of -ub (2048) rows, recorded and not run; --backend auto: "
              "as a GPU with matrix units would be sent them" },
    { "-d --depth", "N", ON(INFO), G_WHAT, SIZE, AT(ledger_depth), 0, 1048576, .def = "0", .help = "tokens before the steps of --ledger" },
    { "--roof", "B:F[:L]", ON(INFO), G_WHAT, COLONS, AT(roof), 2, 3,
      .help = "with --ledger: the time of every row on a machine of B bytes/s, F FLOP/s and L microseconds a call; a Strix Halo is 215e9:30e12:3" },

    { "--ids", NULL, ON(TOKENIZE), G_WHAT, FLAG, AT(ids_only), .help = "text in, ids out, on one line (this is the default)" },
    { "--text", NULL, ON(TOKENIZE), G_WHAT, FLAG, AT(as_text), .help = "ids in, text out" },
    { "--special --parse-special", NULL, ON(TOKENIZE), G_WHAT, FLAG, AT(parse_special), .help = "<|im_end|> and the like in the text are tokens" },

    { "-c --ctx-size", "N", ASK, G_SPEED, SIZE, AT(n_ctx), 0, BIG, .def = "the prompt and -n", .help = "context in tokens" },
    { "-c --ctx-size", "N", ON(INFO), G_SPEED, SIZE, AT(n_ctx), 0, BIG, .def = "4096", .help = "context of the plan" },
    { "-c --ctx-size", "N", ON(EVAL), G_SPEED, SIZE, AT(n_ctx), 0, BIG, .def = "512", .help = "chunk of --ppl" },
    { "-ub --ubatch-size", "N,..", ON(BENCH), G_SPEED, LIST, AT(b_ubatch), 1, 65536, .def = "512, on a GPU 2048", .help = "prompt tokens per step" },
    { "-t --threads", "N,..", ON(BENCH), G_SPEED, LIST, AT(b_threads), 1, 1024, .def = "all cores this process may use", .help = "threads" },
    { "--kv", "TYPE,..", ON(BENCH), G_SPEED, CACHES, AT(b_kv), .choices = "f16 f32 q8_0", .def = "f16", .help = "type of the K/V cache: f16, f32 or q8_0 (cpu)" },
    { "-ctk --cache-type-k", "TYPE,..", ON(BENCH), G_HIDDEN, CACHES, AT(b_kv), .choices = "f16 f32 q8_0" },
    { "-ctv --cache-type-v", "TYPE,..", ON(BENCH), G_HIDDEN, CACHES, AT(b_kv), .choices = "f16 f32 q8_0" },
    { "-ub --ubatch-size", "N", ENGINE & ~ON(BENCH), G_SPEED, UINT32, AT(n_ubatch), 1, 65536, .def = "512, on a GPU 2048", .help = "prompt tokens per step" },
    { "-t --threads", "N", (ENGINE & ~ON(BENCH)) | ON(SELFTEST), G_SPEED, UINT32, AT(n_threads), 1, 1024, .def = "all cores this process may use", .help = "threads" },
    { "--kv", "TYPE", ENGINE & ~ON(BENCH), G_SPEED, CACHE, AT(kv), .choices = "f16 f32 q8_0", .def = "f16", .help = "type of the K/V cache: f16, f32 or q8_0 (cpu)" },
    { "-ctk --cache-type-k", "TYPE", ENGINE & ~ON(BENCH), G_HIDDEN, CACHE, AT(kv), .choices = "f16 f32 q8_0" },
    { "-ctv --cache-type-v", "TYPE", ENGINE & ~ON(BENCH), G_HIDDEN, CACHE, AT(kv), .choices = "f16 f32 q8_0" },
    { "--no-gather", NULL, ENGINE, G_SPEED, FLAG, AT(no_gather), .help = "for comparison: attention over the whole cache with a mask" },
    { "--no-union", NULL, ENGINE, G_SPEED, FLAG, AT(no_union), .help = "for comparison: every prompt token reads its own blocks" },
    { "--no-pooled-cache", NULL, ENGINE, G_SPEED, FLAG, AT(no_pooled_cache),
      .help = "for comparison: keep all raw index keys and pool them again in every step" },
    { "--pooled-max-tokens", "N", ENGINE, G_SPEED, UINT32, AT(pooled_max_tokens), 1, 65536, .def = "never",
      .help = "for comparison: the same in steps of more than N tokens" },
    { "--precise", NULL, ENGINE, G_SPEED, FLAG, AT(precise), .help = "float32 path: f32 caches, activations never quantised" },
    { "-np --parallel", "N", ON(RUN) | ON(BATCH), G_SPEED, UINT32, AT(n_parallel), 1, SESSION_SEQ_MAX, .def = "1",
      .help = "decode N inputs together, so that weights are read once for all of them; rows left over carry guesses. Each answer is the one it is alone, memory is planned for N" },
    { "-np --parallel", "N", ON(BENCH), G_SPEED, UINT32, AT(n_parallel), 1, SESSION_SEQ_MAX, .def = "1",
      .help = "decode N sequences together in the tests of -n; the tokens of all are counted, and with --draft rows left over carry guesses" },
    { "-np --parallel", "N", ON(INFO), G_SPEED, UINT32, AT(n_parallel), 1, SESSION_SEQ_MAX, .def = "1",
      .help = "--plan: memory for N inputs at once; --ledger: a decode step of N rows, each of its own sequence" },
    { "--mem-limit", "SIZE", ENGINE, G_SPEED, BYTES, AT(mem_limit), .def = "free memory", .help = "refuse a session that needs more than SIZE (8G, 500M)" },
    { "--save-state", "FILE", ON(RUN), G_SPEED, PATH, AT(save_state),
      .help = "keep what the prompt computes in FILE, before the answer begins" },
    { "--load-state", "FILE", ON(RUN), G_SPEED, PATH, AT(load_state),
      .help = "take that from FILE instead of computing it; the same prompt, model and options, or it is refused" },
    { "--prefix-cache", "DIR", ASK, G_SPEED, PATH, AT(prefix_dir),
      .help = "keep what the instruction computes in DIR, for the next start" },
    { "--prefix-cache-max", "SIZE", ASK, G_SPEED, BYTES, AT(prefix_max), .def = "2G",
      .help = "remove what was not used for longest until DIR holds no more than SIZE" },
    { "--backend", "B", ENGINE, G_SPEED, CHOICE, AT(backend), .choices = BACKEND_CHOICES, .def = BACKEND_DEFAULT,
      .help = "what computes: auto, cpu, vulkan or hip; weights go to the memory of a GPU at start" },
    { "-dev --device", "N", ENGINE, G_SPEED, UINT32, AT(device), 0, 1023, .def = "0", .help = "which device, as info --devices counts them" },
    { "--load", "MODE", ENGINE, G_SPEED, CHOICE, AT(load), .choices = "direct mmap copy", .def = "direct",
      .help = "how weights for a GPU are read: direct, which leaves the page cache alone, or mmap, through it; the CPU uses them where they are mapped, with copy a copy in large pages" },
    { "--no-graph", NULL, ENGINE | ON(SELFTEST), G_SPEED, FLAG, AT(no_graph), .help = "hip: launch every call by itself instead of replaying a graph" },
    { "--draft", "N|auto|off", ON(INFO), G_SPEED, CHOICE, AT(draft), .choices = DRAFT_CHOICES, .def = "auto",
      .help = "--plan: memory for guesses, unless off; --ledger: also a round with N guesses (1 to 7) for each of --parallel sequences, and what it copies" },
    { "--draft", "N|auto|off", ASK, G_SPEED, CHOICE, AT(draft), .choices = DRAFT_CHOICES, .def = "auto",
      .help = "guess the next N tokens (1 to 7) from the text so far and check them in one step; auto: as many as pay. The answer is the same" },
    { "--draft", "N|auto|off", ON(BENCH), G_SPEED, CHOICE, AT(draft), .choices = DRAFT_CHOICES, .def = "off",
      .help = "generate with guesses, as run does; the text of the test is what they are checked against" },
    { "--draft-dense", NULL, ENGINE, G_SPEED, FLAG, AT(draft_dense), .help = "attention of the draft head over all positions, for comparison" },
    { "--draft-joint", NULL, ENGINE, G_SPEED, FLAG, AT(draft_joint),
      .help = "the draft head's hidden input is normalised over all streams at once instead of one by one, for comparison" },
    { "-md --model-draft", "FILE", ENGINE, G_MODEL, PATH, AT(draft_path), .help = "take the draft head from FILE (GGUF) instead of the model's own" },
    { "--draft", "off", ON(EVAL), G_HIDDEN, CHOICE, .choices = "off", .later = "*" },

    { "-o --output", "FORMAT", ON(BENCH), G_OUTPUT, CHOICE, AT(b_out), .choices = "md jsonl json csv", .later = "sql", .def = "md",
      .help = "md, csv, json or jsonl; the last two with all samples and the record of machine, build and model" },
    { "-o --output", "DIR", ON(BATCH), G_OUTPUT, PATH, AT(out_dir), .help = "one DIR/NAME.txt per input, each whole or absent" },
    { "--jsonl", "FILE", ON(BATCH), G_OUTPUT, PATH, AT(jsonl_path), .help = "one JSON object per input; may be combined with -o" },
    { "--report", "FILE", ON(BATCH), G_OUTPUT, PATH, AT(report_path), .help = "a line per failed input: path, status, message; tabs between" },
    { "--shard", "K/N", ON(BATCH), G_WHAT, SHARD, AT(shard), .def = "1/1, in a Slurm array job the place of the task",
      .help = "only the K-th of N parts of the inputs, for several processes or machines" },
    { "--force", NULL, ON(BATCH), G_OUTPUT, FLAG, AT(force), .help = "answer again what has been answered" },
    { "--progress", NULL, ON(BATCH), G_OUTPUT, FLAG, AT(progress), .help = "a line per input instead of a bar" },
    { "--notify-fd", "N", ON(BATCH), G_OUTPUT, INT32, AT(notify_fd), 0, BIG, .help = "write events as JSON lines to descriptor N" },
    { "--json", NULL, ON(RUN) | ON(EVAL) | ON(INFO), G_OUTPUT, FLAG, AT(json), .help = "one JSON object per result; info: of --ledger" },
    { "-q --quiet", NULL, TALKS, G_OUTPUT, FLAG, AT(quiet), .help = "nothing on stderr but errors" },
    { "-v --verbose", NULL, ASK, G_OUTPUT, FLAG, AT(verbose), .help = "say more on stderr: model, plan, times of each input" },
    { "--log --log-file", "FILE", TALKS, G_OUTPUT, PATH, AT(log_path), .help = "write the lines of stderr to FILE too" },
    { "-h --help", NULL, ANY, G_OUTPUT, HELP, .help = "this text" },
    { "--version", NULL, ANY, G_HIDDEN, VERSION, .help = "name and version" },

    IGNORED("-b --batch-size", "N"),
    IGNORED("-tb --threads-batch", "N"),
    IGNORED("-ngl --gpu-layers --n-gpu-layers", "N"),
    IGNORED("-ncmoe --n-cpu-moe", "N"),
    IGNORED("-fa --flash-attn", "[on|off|auto]"),
    IGNORED("-fit --fit", "on|off"),
    IGNORED("-cram --cache-ram", "N"),
    IGNORED("-ctxcp --ctx-checkpoints", "N"),
    IGNORED("-lzm --lazy-mode", "MODE"),
    IGNORED("--jinja", NULL),
    IGNORED("--mmap", NULL),
    IGNORED("--no-mmap", NULL),
    IGNORED("-st --single-turn", NULL),
    IGNORED("-no-cnv --no-conversation", NULL),
    IGNORED("--no-escape", NULL),
    IGNORED("--no-warmup", NULL),
    IGNORED("--no-display-prompt", NULL),

    NOT_YET("--load", "MODE", ~ENGINE),
    NOT_YET("-lm --load-mode", "MODE", ANY),
    NOT_YET("-md --model-draft", "FILE", ~ENGINE),
    NOT_YET("--spec-type", "TYPE", ANY),
    NOT_YET("--spec-draft-n-max", "N", ANY),
    NOT_YET("--no-block-topk", NULL, ANY),
    NOT_YET("--no-fuse", NULL, ANY),
    NOT_YET("--profile", NULL, ~(ON(BENCH) | ON(RUN))),
    NOT_YET("--devices", NULL, ~ON(INFO)),
    NOT_YET("--kernels", NULL, ~ON(INFO)),
    NOT_YET("--compare", "BACKEND", ~ON(EVAL)),
    NOT_YET("--reasoning-budget", "N", ANY),
    NOT_YET("-np --parallel", "N", ~(ASK | ON(BENCH) | ON(INFO))),
    NOT_YET("--ledger", NULL, ~ON(INFO)),
    NOT_YET("--trace", "FILE", ~(ON(BENCH) | ON(RUN))),
};

const size_t n_option_rows = COUNT_OF(option_rows);

const struct option_command option_commands[N_COMMAND] = {
    [CMD_RUN] = { "run", false, "hayate [run] [-m MODEL] [-p TEXT] [FILE...]", "one answer per FILE, or for standard input (the default)" },
    [CMD_BATCH] = { "batch", false, "hayate batch [-m MODEL] (-o DIR | --jsonl FILE) FILE|DIR|@LIST...",
                    "answers to many files with one load; a second start continues" },
    [CMD_BENCH] = { "bench", false, "hayate bench [-m MODEL] [-p N,..] [-n N,..] [-d N,..]", "measure speed, labelled like llama-bench" },
    [CMD_EVAL] = { "eval", false, "hayate eval [-m MODEL] (--golden FILE... | --ppl TEXT | --needle LEN,..)",
                   "golden values, perplexity, needles, and how far two models are apart" },
    [CMD_INFO] = { "info", false, "hayate info [-m MODEL] [--plan]", "what is in a file, and what memory a run takes" },
    [CMD_TOKENIZE] = { "tokenize", false, "hayate tokenize [-m MODEL] [--ids|--text] [FILE]", "text to token ids and back" },
    [CMD_SPLIT] = { "split", false, "hayate split IN.gguf OUT.gguf", "write a joined n-gram table as one tensor per head" },
    [CMD_SELFTEST] = { "selftest", false, "hayate selftest [--backend B] [--device N] [--machine | ROW...]",
                       "every kernel against its reference on this device; --machine measures it" },
    [CMD_HELP] = { "help", false, "hayate help [COMMAND | --man | --bash | --zsh]", "options of a command; the manual page; completions for a shell" },
    [CMD_VERSION] = { "", false, "hayate --version", "" },
};

/* ---- words ---- */

static const char *undash(const char *name) { return name + strspn(name, "-"); }

/* Position of a word in a list, or -1. */
static int find_word(const char *list, const char *word)
{
    char w[64];
    for (int i = 0; next_word(&list, w, sizeof w); i++)
        if (strcmp(undash(w), undash(word)) == 0)
            return i;
    return -1;
}

/* Edit distance; names are short. */
static size_t distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    size_t row[LONGEST + 1], n = strlen(b);
    if (n > LONGEST || strlen(a) > LONGEST)
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t corner = row[0]++;
        for (size_t j = 0; j < n; j++) {
            size_t here = MIN(MIN(row[j], row[j + 1]) + 1, corner + (a[i] != b[j]));
            corner = row[j + 1];
            row[j + 1] = here;
        }
    }
    return row[n];
}

static status unknown_option(enum command c, const char *typed, struct err *e)
{
    char w[64], name[64], nearest[64] = "";
    snprintf(name, sizeof name, "%.*s", (int)strcspn(typed, "="), typed);
    size_t len = strlen(undash(name)), best = len <= 3 ? 1 : 1 + len / 4;
    for (size_t i = 0; i < n_option_rows; i++) {
        const char *list = option_rows[i].names;
        if (!(option_rows[i].commands & 1u << c) || option_rows[i].kind == LATER)
            continue;
        while (next_word(&list, w, sizeof w)) {
            const char *a = undash(name), *b = undash(w);
            size_t d = len >= 3 && strncmp(a, b, len) == 0 ? 1 : strlen(b) < 2 ? SIZE_MAX : distance(a, b);
            if (d <= best && (d < best || !*nearest)) {
                best = d;
                snprintf(nearest, sizeof nearest, "%s", w);
            }
        }
    }
    if (*nearest)
        return fail(e, ERR_USAGE, "%s: no such option; did you mean %s?", name, nearest);
    return fail(e, ERR_USAGE, "%s: no such option; `hayate help%s%s` lists them", name, c == CMD_RUN ? "" : " ", c == CMD_RUN ? "" : option_commands[c].name);
}

/* ---- values ---- */

static status bad_number(const struct option_row *r, const char *name, const char *text, struct err *e)
{
    char range[64];
    if (r->lo >= r->hi && r->hi != 0)
        snprintf(range, sizeof range, "%g", r->lo);
    else if (r->hi == 0)
        snprintf(range, sizeof range, "0..%" PRIu64, UINT64_MAX);
    else if (r->hi >= BIG)
        snprintf(range, sizeof range, "%.0f..", r->lo);
    else
        snprintf(range, sizeof range, "%g..%g", r->lo, r->hi);
    char *end;
    strtod(text, &end);
    if (end == text || *end)
        return fail(e, ERR_USAGE, "%s: '%s' is not a number, expected %s", name, text, range);
    bool fraction = r->kind != FLOAT && text[strspn(text, "-0123456789")];
    return fail(e, ERR_USAGE, "%s: found %s, expected %s%s", name, text, fraction ? "a whole number in " : "", range);
}

/* A decimal number that is all of text[n]. */
static bool whole_number(const char *text, size_t n, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)text[i]) || __builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, (unsigned)(text[i] - '0'), out))
            return false;
    return n > 0;
}

static status parse_uint(const struct option_row *r, const char *name, const char *text, uint64_t *out, struct err *e)
{
    if (!whole_number(text, strlen(text), out) || (r->hi != 0 && ((double)*out < r->lo || (double)*out > r->hi)))
        return bad_number(r, name, text, e);
    return OK;
}

static status parse_float(const struct option_row *r, const char *name, const char *text, float *out, struct err *e)
{
    char *end;
    errno = 0;
    double x = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)*text) || !isfinite(x) || x < r->lo || x > r->hi)
        return bad_number(r, name, text, e);
    *out = (float)x;
    return OK;
}

static status parse_bytes(const char *name, const char *text, size_t *out, struct err *e)
{
    size_t digits = strspn(text, "0123456789"), shift = 0;
    const char *unit = text + digits, *units = "KMGT";
    uint64_t x;
    if (*unit) {
        const char *u = strchr(units, toupper((unsigned char)*unit));
        if (u)
            shift = 10 * (size_t)(u - units + 1);
        unit += u != NULL;
        if (u && (strcmp(unit, "iB") == 0 || strcmp(unit, "B") == 0))
            unit += strlen(unit);
    }
    if (*unit || !whole_number(text, digits, &x) || x == 0 || !size_mul((size_t)x, (size_t)1 << shift, out))
        return fail(e, ERR_USAGE, "%s: '%s' is not a size, expected a number with K, M, G or T", name, text);
    return OK;
}

/* first, first-last, first-last+step or first-last*factor, as llama-bench has it */
static bool parse_range(const char *p, size_t n, uint64_t *first, uint64_t *last, char *by, uint64_t *step)
{
    size_t a = strspn(p, "0123456789"), b;
    *by = '+', *step = 1;
    if (a >= n)
        return whole_number(p, n, first) && whole_number(p, n, last);
    b = a + 1 + strspn(p + a + 1, "0123456789");
    if (p[a] != '-' || !whole_number(p, a, first) || !whole_number(p + a + 1, MIN(b, n) - a - 1, last) || *first > *last)
        return false;
    if (b >= n)
        return true;
    *by = p[b];
    return (*by == '+' || *by == '*') && whole_number(p + b + 1, n - b - 1, step) && *step > (*by == '*') && (*first > 0 || *by == '+');
}

static status parse_list(const struct option_row *r, const char *name, const char *text, struct uint_list *out, struct err *e)
{
    for (const char *p = text;; p++) {
        size_t n = strcspn(p, ",");
        uint64_t x, last, step;
        char by;
        if (!parse_range(p, n, &x, &last, &by, &step) || (double)last > r->hi)
            return fail(e, ERR_USAGE, "%s: '%s' is not a list of numbers, expected 512 or 512,1024 or 128-512+128", name, text);
        if ((double)x < r->lo)
            return fail(e, ERR_USAGE, "%s: found %" PRIu64 ", expected at least %.0f", name, x, r->lo);
        for (; x <= last; x = by == '+' ? x + step : x * step) {
            if (out->n == MAX_LIST)
                return fail(e, ERR_USAGE, "%s: more than %d numbers", name, MAX_LIST);
            out->v[out->n++] = x;
        }
        p += n;
        if (!*p)
            return OK;
    }
}

static status parse_colons(const struct option_row *r, const char *name, const char *text, struct colons *out, struct err *e)
{
    const char *p = text;
    for (out->n = 0; out->n < (size_t)r->hi; p++) {
        char *end;
        double x = strtod(p, &end);
        if (end == p || isspace((unsigned char)*p) || !isfinite(x) || x < 0 || (*end && *end != ':'))
            break;
        out->v[out->n++] = x;
        p = end;
        if (!*p && out->n >= (size_t)r->lo)
            return OK;
        if (!*p)
            break;
    }
    return fail(e, ERR_USAGE, "%s: found '%s', expected %s, numbers from 0 on", name, text, r->arg);
}

static status parse_choice(const struct option_row *r, const char *name, const char *text, int *out, struct err *e)
{
    char known[96];
    *out = strchr(text, ' ') ? -1 : find_word(r->choices, text);
    if (*out >= 0)
        return OK;
    if (r->later && (*r->later == '*' || find_word(r->later, text) >= 0))
        return fail(e, ERR_UNSUPPORTED, "%s %s: not in this version, expected %s", name, text, joined(known, sizeof known, r->choices, " or "));
    return fail(e, ERR_USAGE, "%s: found '%s', expected %s", name, text, joined(known, sizeof known, r->choices, " or "));
}

/* Choices with commas between them */
static status parse_choices(const struct option_row *r, const char *name, const char *text, struct uint_list *out, struct err *e)
{
    char one[32];
    int choice;
    for (const char *p = text;; p++) {
        size_t n = strcspn(p, ",");
        snprintf(one, sizeof one, "%.*s", (int)n, p);
        TRY(parse_choice(r, name, one, &choice, e));
        if (out->n == MAX_LIST)
            return fail(e, ERR_USAGE, "%s: more than %d values", name, MAX_LIST);
        out->v[out->n++] = (uint64_t)choice;
        p += n;
        if (!*p)
            return OK;
    }
}

/* ---- parsing ---- */

struct parser {
    struct options *o;
    bool have_model, have_kv;
};

static status take(struct parser *p, const struct option_row *r, const char *name, const char *arg, struct err *e)
{
    struct options *o = p->o;
    void *at = (char *)o + r->at;
    uint64_t x = 0;
    int choice = 0;
    switch (r->kind) {
    case FLAG:
        *(bool *)at = true;
        return OK;
    case MODEL:
        if (p->have_model)
            return fail(e, ERR_USAGE, "%s: one model at a time, found %s and %s", name, o->model_path, arg);
        p->have_model = true;
        /* fallthrough */
    case PATH:
        if (!*arg)
            return fail(e, ERR_USAGE, "%s: found an empty name, expected a file", name);
        /* fallthrough */
    case STRING:
        *(const char **)at = arg;
        return OK;
    case INPUT:
        o->files[o->n_files++] = (char *)(uintptr_t)arg;
        return OK;
    case GOLDEN:
        o->golden[o->n_golden++] = (char *)(uintptr_t)arg;
        return OK;
    case PPL:
        o->ppl = true;
        *(const char **)at = arg;
        return OK;
    case UINT32:
        TRY(parse_uint(r, name, arg, &x, e));
        *(uint32_t *)at = (uint32_t)x;
        return OK;
    case INT32:
        TRY(parse_uint(r, name, arg, &x, e));
        *(int32_t *)at = (int32_t)x;
        return OK;
    case UINT64:
        return parse_uint(r, name, arg, at, e);
    case SIZE:
        TRY(parse_uint(r, name, arg, &x, e));
        *(size_t *)at = (size_t)x;
        return OK;
    case FLOAT:
        return parse_float(r, name, arg, at, e);
    case BYTES:
        return parse_bytes(name, arg, at, e);
    case LIST: {
        struct uint_list *l = at;
        if (!l->given)
            l->n = 0; /* the first one replaces the default, more add to it */
        l->given = true;
        return parse_list(r, name, arg, l, e);
    }
    case COLONS:
        return parse_colons(r, name, arg, at, e);
    case CACHES: {
        struct uint_list *l = at, new = { .given = true };
        TRY(parse_choices(r, name, arg, &new, e));
        if (l->given && (l->n != new.n || memcmp(l->v, new.v, new.n * sizeof *new.v) != 0))
            return fail(e, ERR_USAGE, "%s %s: K and V have one type, found two", name, arg);
        *l = new;
        return OK;
    }
    case SHARD:
        return shard_parse(at, name, arg, e);
    case CACHE:
        TRY(parse_choice(r, name, arg, &choice, e));
        if (p->have_kv && (int)o->kv != choice)
            return fail(e, ERR_USAGE, "%s %s: K and V have one type, found two", name, arg);
        p->have_kv = true;
        o->kv = (enum kv_type)choice;
        return OK;
    case CHOICE:
        TRY(parse_choice(r, name, arg, &choice, e));
        if (r->at == AT(reasoning))
            o->reasoning = choice;
        else if (r->at == AT(effort))
            o->effort = (enum chat_effort)choice;
        else if (r->at == AT(long_mode))
            o->long_mode = (enum long_mode)choice;
        else if (r->at == AT(backend))
            o->backend = (enum backend)choice;
        else if (r->at == AT(b_fill))
            o->b_fill = choice ? FILL_RANDOM : FILL_PROMPT;
        else if (r->at == AT(load))
            o->load = (enum load)choice;
        else if (r->at == AT(draft))
            o->draft = choice == 0 ? DRAFT_OFF : choice == 1 ? DRAFT_AUTO : choice - 1;
        else if (r->at == AT(b_out))
            *(int *)at = choice; /* in the order of choices */
        return OK; /* the others have one value that does anything */
    case CHECKED:
        return parse_uint(r, name, arg, &x, e);
    case NOTHING: {
        size_t n = strlen(o->without_effect);
        if (n + strlen(name) + 3 < sizeof o->without_effect)
            snprintf(o->without_effect + n, sizeof o->without_effect - n, "%s%s", n ? ", " : "", name);
        return OK;
    }
    case HELP:
        o->help_on = o->command == CMD_RUN ? CMD_HELP : o->command;
        o->command = CMD_HELP;
        return OK;
    case VERSION:
        o->command = CMD_VERSION;
        return OK;
    case LATER:
        return fail(e, ERR_UNSUPPORTED, "%s: not in this version", name);
    }
    return OK;
}

/* The depths of --sweep as a list */
static status list_sweep(struct options *o, struct err *e)
{
    double first = o->sweep.v[0], last = o->sweep.v[1], step = o->sweep.v[2];
    if (o->b_depth.given)
        return fail(e, ERR_USAGE, "--sweep: takes the place of -d, found both");
    if (first > last || last > BIG || step < 1 || (uint64_t)first + (uint64_t)step < (uint64_t)first)
        return fail(e, ERR_USAGE, "--sweep: found %g:%g:%g, expected FIRST <= LAST and a step of at least 1", first, last, step);
    o->b_depth.n = 0;
    for (uint64_t d = (uint64_t)first; d <= (uint64_t)last; d += (uint64_t)step) {
        if (o->b_depth.n == MAX_LIST)
            return fail(e, ERR_USAGE, "--sweep: more than %d depths", MAX_LIST);
        o->b_depth.v[o->b_depth.n++] = d;
    }
    return OK;
}

static status check_bench(struct options *o, struct err *e)
{
    for (size_t i = 0; i < o->b_kv.n && o->precise && o->b_kv.given; i++)
        if (o->b_kv.v[i] != KV_F32)
            return fail(e, ERR_USAGE, "--precise: keeps K and V in f32, found %s", o->b_kv.v[i] == KV_F16 ? "f16" : "q8_0");
    if (o->n_files > 0)
        return fail(e, ERR_USAGE, "bench: does not take the argument '%s'; a model is given with -m", o->files[0]);
    if (o->abba && o->check)
        return fail(e, ERR_USAGE, "bench: --abba and --check are two ways to compare, expected one");
    if (o->check && o->b_out == OUT_CSV)
        return fail(e, ERR_USAGE, "--check: writes md, json or jsonl, found csv");
    return o->sweep.n ? list_sweep(o, e) : OK;
}

/* The part of the inputs, and names for its files, which other shards of the same command line do not use. */
static status settle_shard(struct options *o, struct err *e)
{
    const char **path[] = { &o->jsonl_path, &o->report_path, &o->log_path };
    o->task_used = o->shard.n == 0 && o->task.id;
    if (o->shard.n == 0)
        TRY(shard_of_task(&o->shard, &o->task, e));
    for (size_t i = 0; i < COUNT_OF(path); i++)
        if (*path[i]) {
            if (!(o->shard_file[i] = shard_path(*path[i], o->shard)))
                return fail(e, ERR_NOMEM, "command line");
            *path[i] = o->shard_file[i];
        }
    return OK;
}

static status check(struct parser *p, struct err *e)
{
    struct options *o = p->o;
    const char *name = option_commands[o->command].name;
    if (o->precise && p->have_kv && o->kv != KV_F32)
        return fail(e, ERR_USAGE, "--precise: keeps K and V in f32, found %s", o->kv == KV_F16 ? "f16" : "q8_0");
    if (o->ledger && o->draft > 0 && o->n_parallel * ((uint32_t)o->draft + 1) > SESSION_VERIFY_MAX)
        return fail(e, ERR_USAGE, "--draft: a step has %d rows, found %u for each of %u sequences (--parallel)", SESSION_VERIFY_MAX, (uint32_t)o->draft + 1,
                    o->n_parallel);
    switch (o->command) {
    case CMD_BENCH:
        return check_bench(o, e);
    case CMD_BATCH:
        if (!o->out_dir && !o->jsonl_path)
            return fail(e, ERR_USAGE, "batch: where to? expected -o DIR or --jsonl FILE");
        if (o->n_files == 0)
            return fail(e, ERR_USAGE, "batch: expected FILE, DIR or @LIST (a file of paths)");
        if (o->notify_fd >= 0) { /* before anything else is opened, which might get this number */
            int flags = fcntl(o->notify_fd, F_GETFL);
            if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
                return fail(e, ERR_USAGE, "--notify-fd %d: %s", o->notify_fd, flags < 0 ? strerror(errno) : "not open for writing");
        }
        TRY(settle_shard(o, e));
        /* fallthrough */
    case CMD_RUN:
        if (o->raw && (o->system || o->reasoning))
            return fail(e, ERR_USAGE, "--raw: has no chat template, so %s has no place", o->system ? "--system" : "--reasoning on");
        if ((o->save_state || o->load_state) && o->n_files > 1)
            return fail(e, ERR_USAGE, "%s: holds one prompt, found %zu inputs", o->save_state ? "--save-state" : "--load-state", o->n_files);
        if ((o->save_state || o->load_state) && (o->long_mode == LONG_SPLIT || o->print_prompt))
            return fail(e, ERR_USAGE, "%s: holds one prompt, found %s", o->save_state ? "--save-state" : "--load-state",
                        o->print_prompt ? "--print-prompt" : "--long split");
        if (o->prefix_max && !o->prefix_dir)
            return fail(e, ERR_USAGE, "--prefix-cache-max: only with --prefix-cache");
        if (o->parse_special && !o->raw)
            return fail(e, ERR_USAGE, "--parse-special: only with --raw; with the template a document is text");
        if (o->print_prompt && o->json)
            return fail(e, ERR_USAGE, "--print-prompt: prints text, found --json");
        break;
    case CMD_INFO:
        if (o->roof.n && (o->roof.v[0] <= 0 || o->roof.v[1] <= 0))
            return fail(e, ERR_USAGE, "--roof: found %g:%g, expected bytes/s and FLOP/s above 0", o->roof.v[0], o->roof.v[1]);
        if (!o->ledger && (o->roof.n || o->json || o->ledger_depth))
            return fail(e, ERR_USAGE, "info: %s belongs to --ledger", o->roof.n ? "--roof" : o->json ? "--json" : "-d");
        break;
    case CMD_EVAL:
        if (o->golden && o->n_golden > 0) {
            for (size_t i = 0; i < o->n_files; i++)
                o->golden[o->n_golden++] = o->files[i];
            o->n_files = 0;
        }
        o->ppl |= o->ids_path != NULL;
        if ((o->n_golden > 0) + o->ppl + (o->needle.n > 0) != 1)
            return fail(e, ERR_USAGE, "eval: expected one of --golden FILE..., --ppl TEXT, --ids F.gold and --needle LEN,..");
        if (!o->ppl && (o->compare || o->ppl_stride))
            return fail(e, ERR_USAGE, "eval: %s belongs to --ppl TEXT or --ids F.gold", o->compare ? "--compare" : "--ppl-stride");
        if (o->ppl && (o->ppl_path != NULL) == (o->ids_path != NULL))
            return fail(e, ERR_USAGE, "eval: perplexity of what? expected --ppl TEXT or --ids F.gold");
        break;
    case CMD_TOKENIZE:
        if (o->ids_only && o->as_text)
            return fail(e, ERR_USAGE, "tokenize: --ids and --text are the two directions, expected one");
        if (o->as_text && o->parse_special)
            return fail(e, ERR_USAGE, "--special: is about reading text, found --text");
        if (o->n_files > 1)
            return fail(e, ERR_USAGE, "tokenize: found %zu files, expected one", o->n_files);
        break;
    case CMD_SPLIT:
        if (o->n_files != 2)
            return fail(e, ERR_USAGE, "split: found %zu files, expected IN.gguf OUT.gguf", o->n_files);
        break;
    case CMD_SELFTEST:
        if (o->machine && o->n_files > 0)
            return fail(e, ERR_USAGE, "selftest: --machine runs no rows, found '%s'", o->files[0]);
        break;
    default:
        break;
    }
    if ((o->command == CMD_INFO || (o->command == CMD_EVAL && !o->needle.n)) && o->n_files > 0)
        return fail(e, ERR_USAGE, "%s: does not take the argument '%s'; a model is given with -m", name, o->files[0]);
    return OK;
}

/* All spellings for getopt; val is the row. Those of this command come first, so that they win over the same name elsewhere. */
static size_t spellings(struct option *opt, char (*name)[32], size_t cap, enum command c)
{
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n_option_rows; i++) {
            const struct option_row *r = &option_rows[i];
            const char *list = r->names;
            char w[32];
            if (!!(r->commands & 1u << c) != (pass == 0))
                continue;
            while (next_word(&list, w, sizeof w)) {
                bool known = false;
                for (size_t k = 0; k < n; k++)
                    known |= strcmp(name[k], undash(w)) == 0;
                if (known || n + 1 >= cap)
                    continue;
                snprintf(name[n], sizeof name[n], "%s", undash(w));
                bool may = r->kind == LATER || r->kind == PPL || (r->arg && *r->arg == '[');
                opt[n] = (struct option){ name[n], may ? optional_argument : r->arg ? required_argument : no_argument, NULL, (int)(256 + i) };
                n++;
            }
        }
    opt[n] = (struct option){ 0 };
    return n;
}

static enum command find_command(const char *word)
{
    for (int c = 0; c < CMD_VERSION; c++)
        if (strcmp(word, option_commands[c].name) == 0)
            return (enum command)c;
    return N_COMMAND;
}

static status parse_options(struct parser *p, int argc, char **argv, struct err *e)
{
    struct option opt[256];
    char name[256][32];
    struct options *o = p->o;
    enum command c = o->command;
    spellings(opt, name, COUNT_OF(opt), c);
    optind = 0; /* GNU: start afresh */
    opterr = 0;
    for (;;) {
        int got = getopt_long_only(argc, argv, ":", opt, NULL);
        if (got == -1)
            break;
        bool apart = got >= 256 && optarg && optarg == argv[optind - 1];
        const char *typed = argv[optind - 1 - apart];
        char spelt[64];
        snprintf(spelt, sizeof spelt, "%.*s", (int)strcspn(typed, "="), typed);
        int which = got >= 256 ? got : optopt;
        const struct option_row *r = which >= 256 ? &option_rows[which - 256] : NULL;
        /* getopt also takes unique beginnings; only whole names are meant here */
        if (!r || find_word(r->names, spelt) < 0)
            return unknown_option(c, typed, e);
        if (r->kind == LATER)
            return fail(e, ERR_UNSUPPORTED, "%s: not in this version", spelt);
        if (!(r->commands & 1u << c))
            return fail(e, ERR_USAGE, "%s: not an option of %s", spelt, option_commands[c].name);
        if (got == ':')
            return fail(e, ERR_USAGE, "%s: expected an argument: %s", spelt, r->arg);
        if (got == '?')
            return fail(e, ERR_USAGE, "%s: takes no argument, found %s", spelt, typed);
        const char *arg = optarg;
        if (r->kind == PPL && !arg && optind < argc && (argv[optind][0] != '-' || !argv[optind][1]))
            arg = argv[optind++];
        if (r->kind == NOTHING && r->arg && *r->arg == '[' && !arg && optind < argc && find_word("on off auto 0 1", argv[optind]) >= 0)
            optind++;
        TRY(take(p, r, spelt, arg, e));
        if (o->command != c) /* --help and --version leave the rest unread */
            return OK;
    }
    while (optind < argc)
        o->files[o->n_files++] = argv[optind++];
    return check(p, e);
}

status options_parse(struct options *o, int argc, char **argv, struct err *e)
{
    const char *model_path = o->model_path;
    *o = (struct options){
        .model_path = model_path, .n_predict = 1024, .sample = SAMPLE_DEFAULTS, .b_reps = 5, .notify_fd = -1, .n_parallel = 1,
        .b_prompt = { { 512 }, 1, false }, .b_gen = { { 128 }, 1, false }, .b_depth = { { 0 }, 1, false },
        .b_threads = { { 0 }, 1, false }, .b_ubatch = { { 0 }, 1, false }, .b_kv = { { 0 }, 1, false },
        .task = o->task, .con = o->con, .stop = o->stop, .at_once = o->at_once,
    };
    o->files = calloc((size_t)argc + 1, sizeof *o->files);
    o->golden = calloc((size_t)argc + 1, sizeof *o->golden);
    if (!o->files || !o->golden)
        return fail(e, ERR_NOMEM, "command line");

    enum command c = argc > 1 ? find_command(argv[1]) : N_COMMAND;
    bool given = c != N_COMMAND;
    o->command = given ? c : CMD_RUN;
    o->draft = o->command == CMD_BENCH || o->command == CMD_EVAL ? DRAFT_OFF : DRAFT_AUTO;
    if (option_commands[o->command].later)
        return fail(e, ERR_UNSUPPORTED, "%s: not in this version", argv[1]);
    if (o->command == CMD_HELP) {
        static const char *const form[] = { [HELP_MAN] = "--man", [HELP_BASH] = "--bash", [HELP_ZSH] = "--zsh" };
        o->help_on = CMD_HELP;
        for (int i = HELP_MAN; i <= HELP_ZSH && argc == 3; i++)
            if (strcmp(argv[2], form[i]) == 0) {
                o->help_form = (enum help_form)i;
                return OK;
            }
        if (argc > 2)
            o->help_on = find_command(argv[2]);
        if (o->help_on == N_COMMAND || argc > 3)
            return fail(e, ERR_USAGE, "help: no command '%s'; `hayate help` lists them", argc > 3 ? argv[3] : argv[2]);
        if (option_commands[o->help_on].later)
            return fail(e, ERR_UNSUPPORTED, "%s: not in this version", argv[2]);
        return OK;
    }
    struct parser p = { .o = o };
    return parse_options(&p, argc - given, argv + given, e);
}

status options_with(struct options *out, const struct options *o, const char *words, struct err *e)
{
    char *argv[64] = { (char *)(uintptr_t)"bench" }, *rest = NULL;
    int argc = 1;
    *out = *o;
    out->files = calloc(COUNT_OF(argv), sizeof *out->files);
    out->golden = calloc(COUNT_OF(argv), sizeof *out->golden);
    out->words = strdup(words);
    out->n_files = out->n_golden = 0;
    struct uint_list *list[] = { &out->b_prompt, &out->b_gen, &out->b_depth, &out->b_threads, &out->b_ubatch, &out->b_kv };
    for (size_t i = 0; i < COUNT_OF(list); i++)
        list[i]->given = false; /* what words say replaces what was said before */
    out->sweep.n = 0;
    if (!out->files || !out->golden || !out->words)
        return fail(e, ERR_NOMEM, "options");
    for (char *w = strtok_r(out->words, " ", &rest); w && argc + 1 < (int)COUNT_OF(argv); w = strtok_r(NULL, " ", &rest))
        argv[argc++] = w;
    TRY(parse_options(&(struct parser){ .o = out }, argc, argv, e));
    if (out->command != o->command || out->abba != o->abba || out->check != o->check || argc == 1)
        return fail(e, ERR_USAGE, "'%s': expected a switch that can be measured", words);
    out->sweep = o->sweep;
    return OK;
}

void options_free(struct options *o)
{
    free(o->files);
    free(o->golden);
    free(o->words);
    for (size_t i = 0; i < COUNT_OF(o->shard_file); i++)
        free(o->shard_file[i]);
    o->files = o->golden = NULL;
    o->words = NULL;
}
