/* Counts the instructions of one run, and the bytes of stack that it uses, on images of pseudo-random numbers.

   Under `-icount shift=3` an instruction takes 8 ns of the emulated clock, and the timer counts every 40 ns. */
#include <stdint.h>
#include <stdio.h>

#include "model.h"

#define TIMER_CONTROL (*(volatile uint32_t *)0x40000000u)
#define TIMER_VALUE (*(volatile uint32_t *)0x40000004u)
#define TIMER_RELOAD (*(volatile uint32_t *)0x40000008u)
#define INSTRUCTIONS_PER_TICK 5u
#define PAINTED_WORDS 16384
#define PAINT 0xA5C3F00Du

static model_input_t image[MODEL_INPUT_SIZE];
static model_score_t scores[MODEL_OUTPUT_SIZE];

/* Below the stack of its caller: what is still painted after a run was not used by it. */
__attribute__((noinline)) static uint32_t *paint(void)
{
    uint32_t *top = __builtin_frame_address(0);
    for (volatile uint32_t *word = top - PAINTED_WORDS; word < top - 16; word++)
        *word = PAINT;
    return top;
}

__attribute__((noinline)) static uint32_t used_below(uint32_t *top)
{
    const volatile uint32_t *word = top - PAINTED_WORDS;
    while (*word == PAINT)
        word++;
    return (uint32_t)((uintptr_t)top - (uintptr_t)word);
}

int main(void)
{
    uint32_t state = 1;
    for (int index = 0; index < MODEL_INPUT_SIZE; index++) {
        state = state * 1664525u + 1013904223u;
        image[index] = (model_input_t)((state >> 24) / (sizeof image[0] == 1 ? 2 : 256.0f));
    }
    TIMER_RELOAD = 0xFFFFFFFFu;
    TIMER_VALUE = 0xFFFFFFFFu;
    TIMER_CONTROL = 1;
    uint32_t *top = paint();
    uint32_t before = TIMER_VALUE;
    int status = model_run(image, scores);
    uint32_t after = TIMER_VALUE;
    printf("status %d\nstack %lu\ninstructions %llu\n", status, (unsigned long)used_below(top),
           (unsigned long long)(before - after) * INSTRUCTIONS_PER_TICK);
    return status;
}
