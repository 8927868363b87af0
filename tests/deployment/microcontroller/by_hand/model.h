/* A network by hand, of the interface that exported folders have: two scores, each a sum of four weighted bytes. */
#ifndef MODEL_H
#define MODEL_H

#include <stdint.h>

#define MODEL_INPUT_SIZE 4
#define MODEL_OUTPUT_SIZE 2
#define MODEL_ARENA_BYTES 8
#define MODEL_MACS 8LL /* products that a run adds up */

typedef uint8_t model_input_t;
typedef int32_t model_score_t;

int model_run(const model_input_t *input, model_score_t *scores);

#endif
