/* qsa_cpu_args.h - what the sparse-attention rows that only the cpu has need to know; no kernel reads this file. */
#ifndef HAYATE_QSA_CPU_ARGS_H
#define HAYATE_QSA_CPU_ARGS_H

/* qsa_attend_union: struct qsa_attend_args. Rows QSA_UNION_ROWS * g .. of a step go over the union of their blocks together, ascending, each block
 * used by the rows that chose it. A row meets its own blocks in the order in which it would meet them alone, and its softmax moves on block by block:
 * the same bits. Items: ceil(n_tok / QSA_UNION_ROWS) * n_kv, the rows outermost. */
#define QSA_UNION_ROWS 8

#endif
