/* One bit of each of the next 32 numbers of a row, or of as many as there are. A row is padded, so that processors with
   vectors take 32 in any case. */
KERNEL uint32_t word_of(const int32_t *row, int bit, int left)
{
    uint32_t word = 0;
    int count = MODEL_COPIES || left > 32 ? 32 : left;
    for (int channel = 0; channel < count; channel++)
        word |= ((uint32_t)row[channel] >> bit & 1u) << channel;
    return left < 32 ? word & ((1u << left) - 1u) : word;
}
