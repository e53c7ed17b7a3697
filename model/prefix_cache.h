/* prefix_cache.h - a folder of session states, one for each prefix, kept from process to process.
 *
 *     DIR/<key>.state                  what a session held after a prefix
 *     DIR/<key>.state.tmp-<pid>-<ns>   one being written: synced, then renamed
 *
 * <key> is an xxh3 in 16 hex digits of everything the bits of the state follow from. What is in a file: state_file.h.
 *
 * A file that is not exactly this is left alone with a note, and replaced by a good one. Any number of processes may use a folder. Nothing
 * in it is touched but files with such names. */
#ifndef HAYATE_MODEL_PREFIX_CACHE_H
#define HAYATE_MODEL_PREFIX_CACHE_H

#include "model/console.h"
#include "model/state_file.h"

typedef struct prefix_cache prefix_cache;

/* Makes the folder when it is missing (its parent must exist). dir = NULL gives NULL, which all functions here take for an empty
 * cache. max_bytes: how much is kept there; 0: 2 GiB. ERR_IO: no folder, or one that cannot be written. */
status prefix_cache_open(prefix_cache **out, const char *dir, size_t max_bytes, struct console *con, struct err *e);
void prefix_cache_close(prefix_cache *c);
/* Whose states are meant from here on. */
void prefix_cache_bind(prefix_cache *c, const model *m, const struct session_params *p);
/* Brings s to the position after ids [n], n > 0. False: there is no such state, or none that can be trusted, and s is anywhere. */
bool prefix_cache_load(prefix_cache *c, session *s, const int32_t *ids, size_t n);
/* Keeps the state of s, which stands after ids [n]; then removes the states that were not used for longest until the folder is within
 * its limit, and parts that a killed process left more than a day ago. What fails is said and costs nothing else. */
void prefix_cache_save(prefix_cache *c, session *s, const int32_t *ids, size_t n);

#endif
