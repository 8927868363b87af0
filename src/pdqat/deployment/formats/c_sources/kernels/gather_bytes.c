/* The codes that a window of a group sees, as they are stored: rows of the window, columns, channels. Padding is 0. */
KERNEL void gather_bytes(const convolution *layer, const tensor *from, window at, int is_inside, int group,
                         uint8_t *restrict codes)
{
    int channels = from->channels / layer->groups, step = from->channel_step;
    const uint8_t *restrict image = (const uint8_t *)data_of(from) + group * channels * step;
    for (int row = 0; row < layer->kernel_height; row++)
        for (int column = 0; column < layer->kernel_width; column++, codes += channels) {
            int y = at.top + row * layer->dilation_y, x = at.left + column * layer->dilation_x;
            if (!is_inside && is_outside(from, y, x)) {
                memset(codes, 0, (size_t)channels);
                continue;
            }
            const uint8_t *pixel = image + (y * from->width + x) * from->pixel_step;
            for (int channel = 0; channel < channels; channel++)
                codes[channel] = pixel[channel * step];
        }
}
