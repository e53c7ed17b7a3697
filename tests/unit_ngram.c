/* unit_ngram.c - token window, hash and row ids against the check values of spec page "model" section 12.1. */
#include "model/ngram.h"
#include "tests/test.h"

static struct shape released(void)
{
    struct shape s = { .ple_ngram = 3, .ple_head_per_ngram = 8, .ple_head = 16, .ple_eos = 248044, .ple_layer = 1,
                       .ple_mul = { 23703573157769u, 20109073645365u, 8052911324071u } };
    static const uint32_t last[16] = { 3, 23, 33, 47, 59, 63, 69, 77, 81, 93, 107, 147, 153, 159, 161, 171 };
    for (int h = 0; h < 16; h++) {
        s.ple_size[h] = 20000000u + last[h];
        s.ple_offset[h] = h ? s.ple_offset[h - 1] + s.ple_size[h - 1] : 0;
    }
    return s;
}

static const int32_t ids[9] = { 248045, 846, 198, 9419, 248046, 198, 248044, 100, 200 };
static const uint64_t want[9][16] = {
    { 13981229, 30076798, 49239434, 61315716, 98540601, 111186732, 120378863, 146384625, 173637879, 184336749, 217808755, 222173721, 249579227, 277180543, 299757935, 312970430 },
    { 4908448, 36872991, 46611251, 64451521, 83649409, 110850044, 122402102, 159207155, 170314019, 195445770, 214314282, 239389039, 254862662, 271565595, 284073139, 308659387 },
    { 4582007, 37691206, 44255274, 65455601, 89351473, 103985474, 135938409, 145212418, 163775156, 199680439, 200044921, 228961047, 240669798, 272736434, 296838250, 317942745 },
    { 17028438, 28209680, 53967334, 66215064, 85458255, 111908343, 131616820, 144623762, 166642648, 189439214, 209569116, 233987584, 245802513, 277657279, 294951074, 301485535 },
    { 5098318, 39222209, 50781683, 68002168, 98868614, 103450215, 121222150, 153263833, 169632415, 198132079, 216839746, 239821624, 245407463, 272073083, 281201541, 308643050 },
    { 510813, 24677820, 50498865, 70834323, 89294582, 102912024, 124085691, 153712591, 165033273, 184094315, 217467289, 233619392, 252430401, 272125264, 285553350, 314166548 },
    { 16849591, 37537304, 42290399, 73883125, 88405327, 114186760, 123740665, 158125394, 162126929, 190169925, 201084305, 223990392, 248114762, 273201310, 295110750, 306260765 },
    { 5727835, 21884476, 43702108, 66434789, 84094509, 104112171, 134886528, 157314943, 162363667, 189466439, 200618315, 232121522, 258547276, 266199001, 289022207, 305180972 },
    { 6669481, 25231135, 54517055, 75522994, 90676203, 102395039, 139974376, 143415227, 164675732, 199178354, 201246635, 232214480, 253236281, 274617176, 281823939, 318456244 },
};
static const uint64_t want_zero[16] = { 768795, 32189829, 51641306, 71063218, 85886852, 104959504, 134316676, 154856127, 173280301, 194832882, 202840854, 222492280, 256138797, 271010889, 296240796, 304432235 };

/* The general rule: shift right without crossing an end-of-text, fill with end-of-text */
static int32_t brute(const int32_t *x, int t, int k, int32_t eos)
{
    for (int i = 1; i <= k; i++)
        if (t - i < 0 || x[t - i] == eos)
            return eos;
    return x[t - k];
}

int main(void)
{
    struct shape s = released();
    uint64_t rows[MAX_PLE_HEADS];
    int32_t id[MAX_NGRAM];
    for (int t = 0; t < 9; t++) {
        int32_t recent[3] = { ids[t], t >= 1 ? ids[t - 1] : s.ple_eos, t >= 2 ? ids[t - 2] : s.ple_eos };
        ngram_window(&s, recent, id);
        ngram_rows(&s, id, rows);
        for (int h = 0; h < 16; h++)
            CHECK(rows[h] + s.ple_offset[h] == want[t][h]);
    }
    ngram_window(&s, (int32_t[]){ 0, s.ple_eos, s.ple_eos }, id);
    ngram_rows(&s, id, rows);
    for (int h = 0; h < 16; h++)
        CHECK(rows[h] + s.ple_offset[h] == want_zero[h]);

    /* random sequences of a small alphabet with many end-of-texts, cut in random pieces: the window that ngram_advance carries */
    srand((unsigned)test_seed(7));
    for (int round = 0; round < 200; round++) {
        int32_t x[40], past[MAX_NGRAM] = { s.ple_eos, s.ple_eos };
        for (int i = 0; i < 40; i++)
            x[i] = rand() % 3 ? rand() % 5 : s.ple_eos;
        for (int at = 0; at < 40;) {
            int n = 1 + rand() % 5;
            n = n < 40 - at ? n : 40 - at;
            for (int t = 0; t < n; t++) {
                int32_t recent[3];
                for (int k = 0; k < 3; k++)
                    recent[k] = t >= k ? x[at + t - k] : past[k - t - 1];
                ngram_window(&s, recent, id);
                for (int k = 0; k < 3; k++)
                    CHECK(id[k] == brute(x, at + t, k, s.ple_eos));
            }
            ngram_advance(&s, past, x + at, (size_t)n);
            at += n;
        }
    }
    return TEST_END();
}
