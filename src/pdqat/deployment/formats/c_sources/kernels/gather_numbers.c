/* The codes that a window of a group sees: rows of the window, columns, channels. Padding is code 0. */
KERNEL void gather_numbers(const convolution *layer, const tensor *from, window at, int group,
                           int16_t *restrict codes)
{
    int channels = from->channels / layer->groups, step = from->channel_step;
    const uint8_t *bytes = (const uint8_t *)data_of(from) + group * channels * step;
    int sign = from->is_signed ? 128 : 0; /* a byte from 128 on is 256 less */
    for (int row = 0; row < layer->kernel_height; row++)
        for (int column = 0; column < layer->kernel_width; column++) {
            int y = at.top + row * layer->dilation_y, x = at.left + column * layer->dilation_x;
            if (!at.is_inside && is_outside(from, y, x)) {
                for (int channel = 0; channel < channels; channel++)
                    *codes++ = 0;
                continue;
            }
            const uint8_t *pixel = bytes + (y * from->width + x) * from->pixel_step;
            for (int channel = 0; channel < channels; channel++)
                *codes++ = (int16_t)((pixel[channel * step] ^ sign) - sign);
        }
}
