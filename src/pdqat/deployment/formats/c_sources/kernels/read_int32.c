KERNEL void read_int32(const tensor *from, int pixel, int32_t *row)
{
    const int32_t *numbers = (const int32_t *)data_of(from) + pixel * from->pixel_step;
    for (int channel = 0; channel < from->channels; channel++)
        row[channel] = numbers[channel * from->channel_step];
}
