/* Adds up all pixels, channel by channel. */
static void sum_pixels(const tensor *from, const tensor *to)
{
    memset(arena.other, 0, sizeof arena.other);
    for (int pixel = 0; pixel < pixels_of(from); pixel++) {
        from->read(from, pixel, arena.row);
        for (int channel = 0; channel < from->channels; channel++)
            arena.other[channel] += arena.row[channel];
    }
    to->write(to, 0, arena.other);
}
