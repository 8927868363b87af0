/* Real numbers as some of the channels of others. */
KERNEL void copy_channels(int first, const tensor *from, const tensor *to)
{
    for (int pixel = 0; pixel < pixels_of(to); pixel++)
        for (int channel = 0; channel < from->channels; channel++)
            put_real(to, pixel, first + channel, real_at(from, pixel, channel));
}
