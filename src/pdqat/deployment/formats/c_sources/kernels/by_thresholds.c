/* Codes by thresholds: as many as a sum reaches are counted up from the lowest code, or down from the highest. */
static void by_thresholds(const row_operation *how, int32_t *row, int channels, int pixel)
{
    (void)pixel;
    const int32_t *thresholds = how->thresholds;
    if (how->count == 1) {
        for (int channel = 0; channel < channels; channel++) {
            int32_t reached = row[channel] >= thresholds[channel];
            row[channel] = how->directions[channel] > 0 ? how->low + reached : how->high - reached;
        }
        return;
    }
    for (int channel = 0; channel < channels; channel++, thresholds += how->count) {
        int first = 0, last = how->count;
        while (first < last) {
            int middle = (first + last) / 2;
            if (row[channel] >= thresholds[middle])
                first = middle + 1;
            else
                last = middle;
        }
        row[channel] = how->directions[channel] > 0 ? how->low + first : how->high - first;
    }
}
