static void write_planes(const tensor *to, int pixel, const int32_t *row)
{
    int words = plane_words(to->channels);
    uint32_t *bits = (uint32_t *)to->data + pixel * words * to->planes;
    for (int plane = 0; plane < to->planes; plane++)
        for (int first = 0; first < to->channels; first += 32) {
            int count = to->channels - first < 32 ? to->channels - first : 32;
            uint32_t word = 0;
            for (int channel = 0; channel < count; channel++)
                word |= ((uint32_t)row[first + channel] >> plane & 1u) << channel;
            *bits++ = word;
        }
}
