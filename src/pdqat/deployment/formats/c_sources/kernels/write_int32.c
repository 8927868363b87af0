KERNEL void write_int32(const tensor *to, int pixel, const int32_t *row)
{
    int32_t *numbers = (int32_t *)data_of(to) + pixel * to->pixel_step;
    for (int channel = 0; channel < to->channels; channel++)
        numbers[channel * to->channel_step] = row[channel];
}
