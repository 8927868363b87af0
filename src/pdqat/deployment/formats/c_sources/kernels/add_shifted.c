/* Words with the bits of others, which are shifted to the left or to the right. */
KERNEL void add_shifted(uint32_t *restrict line, const uint32_t *restrict words, int step, int count, int left,
                        int right)
{
    IN_VECTORS
    for (int x = 0; x < count; x++)
        line[x] |= words[x * step] << left >> right;
}
