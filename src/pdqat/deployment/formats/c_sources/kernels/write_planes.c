KERNEL void write_planes(const tensor *to, int pixel, const int32_t *restrict row)
{
    int words = plane_words(to->channels);
    uint32_t *restrict bits = (uint32_t *)data_of(to) + pixel * words * to->planes;
    for (int plane = 0; plane < to->planes; plane++)
        for (int first = 0; first < to->channels; first += 32)
            *bits++ = word_of(row + first, plane, to->channels - first);
}
