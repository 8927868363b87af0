#include <stdio.h>

#include "golden.h"

int main(void)
{
    model_score_t scores[2];
    model_run(golden_input, scores);
    for (int index = 0; index < 2; index++)
        if (scores[index] != golden_scores[index]) {
            printf("score %d: expected %ld, got %ld\n", index, (long)golden_scores[index], (long)scores[index]);
            return 1;
        }
    printf("ok\n");
    return 0;
}
