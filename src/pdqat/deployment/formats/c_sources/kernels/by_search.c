/* Codes by many thresholds: as many as a sum reaches, found by halves, are counted up from the lowest code, or down
   from the highest. */
KERNEL void by_search(const row_operation *how, int32_t *row, int channels)
{
    const int32_t *thresholds = how->thresholds;
    for (int channel = 0; channel < channels; channel++, thresholds += how->count) {
        int first = 0, last = how->count;
        while (first < last) {
            int middle = (first + last) / 2;
            if (row[channel] >= thresholds[middle])
                first = middle + 1;
            else
                last = middle;
        }
        row[channel] = how->directions == NULL || how->directions[channel] > 0 ? how->low + first : how->high - first;
    }
}
