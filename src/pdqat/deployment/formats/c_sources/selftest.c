/* Runs the golden samples and compares every code of every layer, and the scores, with what they should be. */
#include <stdio.h>

#include "golden.h"
#include "model.h"

static int sample;
static long differences;

void model_observe(int layer, int index, int32_t code)
{
    int32_t expected = golden_lows[layer] + golden_codes[sample][golden_starts[layer] + index];
    if (code != expected && differences++ == 0)
        printf("sample %d, layer %d (%s), index %d: expected %ld, got %ld\n", sample, layer, golden_names[layer], index,
               (long)expected, (long)code);
}

int main(void)
{
    long all = 0;
    for (sample = 0; sample < GOLDEN_SAMPLES; sample++) {
        model_score_t scores[MODEL_OUTPUT_SIZE];
        int status = model_run(golden_inputs[sample], scores);
        for (int index = 0; index < MODEL_OUTPUT_SIZE; index++)
            if (scores[index] != golden_scores[sample][index] && differences++ == 0)
                printf("sample %d, score %d: expected %.9g, got %.9g\n", sample, index,
                       (double)golden_scores[sample][index], (double)scores[index]);
        printf("sample %d: %ld differences%s\n", sample, differences, status == 0 ? "" : ", and an error");
        all += differences + status;
        differences = 0;
    }
    printf("%s\n", all == 0 ? "ok" : "different");
    return all != 0;
}
