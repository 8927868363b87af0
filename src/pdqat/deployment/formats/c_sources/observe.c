#ifdef MODEL_OBSERVED
/* Shows a pixel's codes, in the order of PyTorch: channels, rows, columns. */
#define OBSERVE(layer, row, to, pixel)                                                                                 \
    for (int shown = 0; shown < (to)->channels; shown++)                                                               \
    model_observe(layer, shown * (to)->height * (to)->width + (pixel), (row)[shown])
#else
#define OBSERVE(layer, row, to, pixel) ((void)0)
#endif
