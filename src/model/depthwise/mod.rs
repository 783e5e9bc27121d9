//! Depth-wise convolution over channels-last activations, `[B, T, F, C]`.
//!
//! Both the subsampling (3x3, stride 2) and the convolution module (K x 1, stride 1) of a
//! Conformer are depth-wise. Burn computes the weight gradient of a grouped convolution one
//! group at a time, hundreds of small launches a layer, so the operator has a gradient of its
//! own: a few passes over memory on any backend, and vectorised loops on a CPU ([`cpu`]).
//! Source of the arithmetic: Chollet, "Xception" (2017), section 2; padding is zero.

pub mod cpu;
mod ops;

use burn::tensor::{Shape, Tensor};

pub use ops::DepthwiseOps;

/// Kernel size, stride and zero padding along time and frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Taps along time and frequency.
    pub kernel: [usize; 2],
    /// Step along time and frequency.
    pub stride: [usize; 2],
    /// Zeros before and after, along time and frequency.
    pub padding: [usize; 2],
}

impl Geometry {
    /// A `kernel`-tap convolution along time that keeps the length (`kernel` odd).
    pub fn along_time(kernel: usize) -> Self {
        Self { kernel: [kernel, 1], stride: [1, 1], padding: [kernel / 2, 0] }
    }

    /// A square kernel that halves both axes (rounding up for an odd kernel).
    pub fn halving(kernel: usize) -> Self {
        Self { kernel: [kernel; 2], stride: [2; 2], padding: [kernel / 2; 2] }
    }

    /// The length of an axis after the convolution; the one formula that lengths, masks and
    /// feasibility checks use. Zero stays zero.
    pub fn output_len(&self, axis: usize, len: usize) -> usize {
        let padded = len + 2 * self.padding[axis];
        if len == 0 || padded < self.kernel[axis] {
            return 0;
        }
        (padded - self.kernel[axis]) / self.stride[axis] + 1
    }

    /// `[B, T, F, C]` to `[B, T', F', C]`.
    pub fn output_shape(&self, input: &Shape) -> Shape {
        Shape::from([
            input[0],
            self.output_len(0, input[1]),
            self.output_len(1, input[2]),
            input[3],
        ])
    }
}

/// Convolves each channel of `input` with its own taps.
///
/// # Shapes
///
/// - `input`: `[B, T, F, C]`
/// - `taps`: `[KT, KF, C]`
/// - output: `[B, T', F', C]` as [`Geometry::output_shape`] says
pub fn depthwise_conv(input: Tensor<4>, taps: Tensor<3>, geometry: Geometry) -> Tensor<4> {
    Tensor::from_dispatch(burn::backend::Dispatch::depthwise_conv(
        input.into_dispatch(),
        taps.into_dispatch(),
        geometry,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Distribution, Tolerance};

    fn naive(input: &Tensor<4>, taps: &Tensor<3>, g: Geometry) -> Vec<f64> {
        let x: Vec<f32> = input.to_data().try_to_vec().unwrap();
        let w: Vec<f32> = taps.to_data().try_to_vec().unwrap();
        let [b, t, f, c] = input.dims();
        let (t_out, f_out) = (g.output_len(0, t), g.output_len(1, f));
        let mut y = vec![0.0; b * t_out * f_out * c];
        for bi in 0..b {
            for ti in 0..t_out {
                for fi in 0..f_out {
                    for ci in 0..c {
                        let mut sum = 0.0;
                        for kt in 0..g.kernel[0] {
                            for kf in 0..g.kernel[1] {
                                let ts = (ti * g.stride[0] + kt) as isize - g.padding[0] as isize;
                                let fs = (fi * g.stride[1] + kf) as isize - g.padding[1] as isize;
                                if ts >= 0 && fs >= 0 && (ts as usize) < t && (fs as usize) < f {
                                    let at = ((bi * t + ts as usize) * f + fs as usize) * c + ci;
                                    let tap = (kt * g.kernel[1] + kf) * c + ci;
                                    sum += f64::from(x[at]) * f64::from(w[tap]);
                                }
                            }
                        }
                        y[((bi * t_out + ti) * f_out + fi) * c + ci] = sum;
                    }
                }
            }
        }
        y
    }

    fn cases() -> Vec<([usize; 4], Geometry)> {
        vec![
            ([2, 7, 1, 5], Geometry::along_time(3)),
            ([1, 3, 1, 8], Geometry::along_time(9)),
            ([3, 11, 1, 33], Geometry::along_time(31)),
            ([2, 8, 6, 4], Geometry::halving(3)),
            ([2, 9, 5, 17], Geometry::halving(3)),
            ([1, 1, 1, 1], Geometry::halving(3)),
        ]
    }

    #[test]
    fn the_convolution_equals_plain_loops() {
        let device = Device::flex();
        for (shape, g) in cases() {
            let x = Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), &device);
            let w = Tensor::<3>::random(
                [g.kernel[0], g.kernel[1], shape[3]],
                Distribution::Normal(0.0, 1.0),
                &device,
            );
            let want = naive(&x, &w, g);
            let got: Vec<f32> = depthwise_conv(x, w, g).to_data().try_to_vec().unwrap();
            assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(&want) {
                assert!((f64::from(*got) - want).abs() < 1e-4, "{shape:?} {g:?}");
            }
        }
    }

    /// The operator is bilinear, so its derivative along a direction is exactly the operator
    /// applied to that direction: `<dL/dx, d> = <r, conv(d, w)>` for `L = <r, conv(x, w)>`.
    #[test]
    fn gradients_are_the_adjoints_of_the_convolution() {
        let device = Device::flex().autodiff();
        let plain = Device::flex();
        let random4 =
            |s: [usize; 4]| Tensor::<4>::random(s, Distribution::Normal(0.0, 1.0), &plain);
        for (shape, g) in cases() {
            let w_shape = [g.kernel[0], g.kernel[1], shape[3]];
            let random3 = || Tensor::<3>::random(w_shape, Distribution::Normal(0.0, 1.0), &plain);
            let (x, dx, w, dw) = (random4(shape), random4(shape), random3(), random3());
            let out = g.output_shape(&x.shape());
            let r = random4([out[0], out[1], out[2], out[3]]);

            let xg = Tensor::<4>::from_data(x.to_data(), &device).require_grad();
            let wg = Tensor::<3>::from_data(w.to_data(), &device).require_grad();
            let rg = Tensor::<4>::from_data(r.to_data(), &device);
            let grads = (depthwise_conv(xg.clone(), wg.clone(), g) * rg).sum().backward();
            let along_x = (xg.grad(&grads).unwrap() * dx.clone()).sum();
            let along_w = (wg.grad(&grads).unwrap() * dw.clone()).sum();
            let want_x = (depthwise_conv(dx, w, g) * r.clone()).sum();
            let want_w = (depthwise_conv(x, dw, g) * r).sum();
            along_x
                .to_data()
                .assert_approx_eq::<f32>(&want_x.to_data(), Tolerance::rel_abs(1e-3, 1e-3));
            along_w
                .to_data()
                .assert_approx_eq::<f32>(&want_w.to_data(), Tolerance::rel_abs(1e-3, 1e-3));
        }
    }

    #[test]
    fn lengths_follow_the_convolution_for_every_length() {
        let device = Device::flex();
        let g = Geometry::halving(3);
        for t in 1..200 {
            let x = Tensor::<4>::zeros([1, t, 1, 1], &device);
            let y = depthwise_conv(x, Tensor::zeros([3, 3, 1], &device), g);
            assert_eq!(y.dims()[1], g.output_len(0, t));
            assert_eq!(g.output_len(0, t), t.div_ceil(2));
        }
    }
}
