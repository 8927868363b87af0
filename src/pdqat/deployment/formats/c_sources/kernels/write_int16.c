KERNEL void write_int16(const tensor *to, int pixel, const int32_t *row)
{
    uint8_t *bytes = (uint8_t *)data_of(to) + 2 * pixel * to->pixel_step;
    for (int channel = 0; channel < to->channels; channel++) {
        int16_t number = (int16_t)row[channel];
        memcpy(bytes + 2 * channel, &number, sizeof number);
    }
}
