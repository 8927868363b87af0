/* Codes by a few thresholds: as many as a sum reaches are counted up from the lowest code, or down from the highest. */
KERNEL void by_thresholds(const row_operation *how, int32_t *restrict row, int channels)
{
    const int32_t *thresholds = how->thresholds;
    const int8_t *directions = how->directions;
    int32_t low = how->low, high = how->high;
    int count = how->count;
    IN_VECTORS
    for (int channel = 0; channel < channels; channel++) {
        int32_t reached = 0;
        for (int number = 0; number < count; number++)
            reached += row[channel] >= thresholds[number * channels + channel];
        row[channel] = directions == NULL || directions[channel] > 0 ? low + reached : high - reached;
    }
}
