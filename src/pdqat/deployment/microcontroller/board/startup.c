/* Start-up of the emulated board mps2-an385, an Arm Cortex-M3: vector table, initial values, then main. */
#include <stdint.h>
#include <stdlib.h>

extern uint32_t stack_top, data_start, data_end, data_in_flash, bss_start, bss_end;
extern void initialise_monitor_handles(void);
int main(void);
void reset(void);
void fault(void);
void _init(void);
void _fini(void);

/* What newlib calls before and after main. */
void _init(void) {}
void _fini(void) {}

void reset(void)
{
    const uint32_t *from = &data_in_flash;
    for (uint32_t *to = &data_start; to < &data_end;)
        *to++ = *from++;
    for (uint32_t *to = &bss_start; to < &bss_end;)
        *to++ = 0;
    initialise_monitor_handles();
    exit(main());
}

/* A fault ends the emulation instead of looping for ever. */
void fault(void)
{
    _Exit(3);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &stack_top, (void *)reset, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault,
};
