static void write_planes(const tensor *to, int pixel, const int32_t *row)
{
    int words = plane_words(to->channels), count = words * to->planes;
    uint32_t *bits = (uint32_t *)to->data + pixel * count;
    memset(bits, 0, (size_t)count * sizeof *bits);
    for (int plane = 0; plane < to->planes; plane++)
        for (int channel = 0; channel < to->channels; channel++)
            bits[plane * words + channel / 32] |= ((uint32_t)row[channel] >> plane & 1u) << channel % 32;
}
