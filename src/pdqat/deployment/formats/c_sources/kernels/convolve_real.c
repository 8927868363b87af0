/* A convolution of real numbers. A sum starts with the bias, then come rows of the window, columns, channels. */
static void convolve_real(const convolution *layer, const tensor *from, const tensor *to)
{
    int channels = from->channels / layer->groups, outputs = to->channels / layer->groups;
    int terms = layer->kernel_height * layer->kernel_width * channels;
    for (int pixel = 0; pixel < pixels_of(to); pixel++) {
        int top = pixel / to->width * layer->stride_y - layer->pad_y;
        int left = pixel % to->width * layer->stride_x - layer->pad_x;
        for (int output = 0; output < to->channels; output++) {
            const float *weights = layer->reals + output * terms;
            int first = output / outputs * channels;
            float sum = layer->biases[output];
            for (int row = 0; row < layer->kernel_height; row++)
                for (int column = 0; column < layer->kernel_width; column++, weights += channels) {
                    int y = top + row * layer->dilation_y, x = left + column * layer->dilation_x;
                    if (y < 0 || y >= from->height || x < 0 || x >= from->width)
                        continue;
                    for (int channel = 0; channel < channels; channel++) {
                        float product = weights[channel] * real_at(from, y * from->width + x, first + channel);
                        sum += product;
                    }
                }
            arena.row[output] = as_bits(sum);
        }
        finish(layer->finish, arena.row, to, pixel);
    }
}
