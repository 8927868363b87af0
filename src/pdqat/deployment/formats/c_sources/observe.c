#ifdef MODEL_OBSERVED
/* Shows a pixel's codes, in the order of PyTorch: channels, rows, columns. */
#define OBSERVE(how, row, to, pixel)                                                                                   \
    for (int shown = 0; (how)->observed != 0 && shown < (to)->channels; shown++)                                       \
    model_observe((how)->observed - 1, shown * (to)->height * (to)->width + (pixel), (row)[shown])
#else
#define OBSERVE(how, row, to, pixel) ((void)0)
#endif
