/* Real numbers in one row: channels, rows, columns. */
KERNEL void flatten_real(const tensor *from, const tensor *to)
{
    for (int channel = 0; channel < from->channels; channel++)
        for (int pixel = 0; pixel < pixels_of(from); pixel++)
            put_real(to, 0, channel * pixels_of(from) + pixel, real_at(from, pixel, channel));
}
