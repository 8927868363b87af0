/* Runs many samples, and keeps the codes of each: how a folder is verified on the host. */
#include <stddef.h>

#include "model.h"

#ifdef MODEL_OBSERVED
static int32_t *seen;
static const int32_t *starts;

void model_observe(int layer, int index, int32_t code)
{
    seen[starts[layer] + index] = code;
}
#endif

/* starts: of each layer's codes, which `codes` has behind each other, `size` for a sample. */
int run_samples(const model_input_t *inputs, model_score_t *scores, int samples, int32_t *codes, const int32_t *layers,
                int size);
int run_samples(const model_input_t *inputs, model_score_t *scores, int samples, int32_t *codes, const int32_t *layers,
                int size)
{
    for (int sample = 0; sample < samples; sample++) {
#ifdef MODEL_OBSERVED
        seen = codes + (size_t)sample * (size_t)size;
        starts = layers;
#else
        (void)codes, (void)layers, (void)size;
#endif
        if (model_run(inputs + (size_t)sample * MODEL_INPUT_SIZE, scores + (size_t)sample * MODEL_OUTPUT_SIZE) != 0)
            return 1;
    }
    return 0;
}
