/* A pixel of a convolution of real numbers. A sum starts with the bias, then come rows of the window, columns,
   channels. */
KERNEL void convolve_real(const convolution *layer, const tensor *from, const tensor *to, int pixel)
{
    int channels = from->channels / layer->groups, outputs = to->channels / layer->groups;
    int terms = layer->kernel_height * layer->kernel_width * channels;
    int step = 4 * from->channel_step; /* bytes */
    const uint8_t *numbers = (const uint8_t *)data_of(from);
    window at = window_at(layer, from, to, pixel);
    for (int output = 0; output < to->channels; output++) {
        const float *weights = layer->reals + output * terms;
        int first = output / outputs * channels;
        float sum = layer->biases[output];
        for (int row = 0; row < layer->kernel_height; row++)
            for (int column = 0; column < layer->kernel_width; column++, weights += channels) {
                int y = at.top + row * layer->dilation_y, x = at.left + column * layer->dilation_x;
                if (!at.is_inside && is_outside(from, y, x))
                    continue;
                const uint8_t *number = numbers + (y * from->width + x) * 4 * from->pixel_step + first * step;
                for (int channel = 0; channel < channels; channel++, number += step) {
                    float value, product;
                    memcpy(&value, number, sizeof value);
                    product = weights[channel] * value;
                    sum += product;
                }
            }
        arena.row[output] = as_bits(sum);
    }
}
